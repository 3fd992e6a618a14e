// The windows of a convolution: the codes of an image in, those of its windows out, at most one each a cycle.
//
// An image enters row by row, column by column, all CHANNELS of a position in sequence.  Its windows leave row by row,
// column by column; of each all rows, columns and channels.  Outside the image a code is ZERO_POINT, whose product is 0.
// A module `layer` with DEPTH = KERNEL_ROWS * KERNEL_COLUMNS * CHANNELS makes of them the outputs of the convolution.
//
// Line r % LINES of the buffer has row r.  Before the windows of a row the rows enter that they reach, after the last
// those that none reaches:
//
//     from an image to the next:  HEIGHT * COLUMNS * CHANNELS + HEIGHT_OUT * COLUMNS_OUT * DEPTH cycles
//
// where nothing waits for its neighbours; benchmarks/rtl_core.py has the same number.
module window #(
    parameter HEIGHT = 1,
    parameter COLUMNS = 1,
    parameter CHANNELS = 1,
    parameter HEIGHT_OUT = 1,
    parameter COLUMNS_OUT = 1,
    parameter KERNEL_ROWS = 1,
    parameter KERNEL_COLUMNS = 1,
    parameter STRIDE_ROWS = 1,
    parameter STRIDE_COLUMNS = 1,
    parameter DILATION_ROWS = 1,
    parameter DILATION_COLUMNS = 1,
    parameter BEFORE_ROWS = 0,
    parameter BEFORE_COLUMNS = 0,
    parameter LINES = 1,
    parameter [7:0] ZERO_POINT = 0
) (
    input logic clock,
    input logic reset,
    input logic in_valid,
    output logic in_ready,
    input logic [7:0] in_code,
    output logic out_valid,
    input logic out_ready,
    output logic [7:0] out_code
);
    localparam ROW = COLUMNS * CHANNELS;
    localparam ADDRESS_BITS = LINES * ROW > 1 ? $clog2(LINES * ROW) : 1;
    // The line of the row before which all padding is: row -BEFORE_ROWS.
    localparam FIRST_LINE = (LINES - BEFORE_ROWS % LINES) % LINES;

    (* ram_style = "block" *) logic [7:0] lines[0:LINES*ROW-1];

    // What has entered: `filled` rows, and `entered` codes of the next, which is line `write_line`.
    logic signed [15:0] filled, entered, write_line;
    // The value that leaves next: its window (y, x), and row i, column j, channel c in it; the line of row i, and of 0.
    logic signed [15:0] y, x, i, j, c, line, top_line;

    wire signed [15:0] row = 16'(y * STRIDE_ROWS + i * DILATION_ROWS - BEFORE_ROWS);
    wire signed [15:0] column = 16'(x * STRIDE_COLUMNS + j * DILATION_COLUMNS - BEFORE_COLUMNS);
    wire is_inside = row >= 0 && row < HEIGHT && column >= 0 && column < COLUMNS;

    // The rows that the windows of row y reach; a row of windows behind the last would reach past the image.
    wire signed [15:0] behind = 16'(y * STRIDE_ROWS + (KERNEL_ROWS - 1) * DILATION_ROWS - BEFORE_ROWS + 1);
    wire filling = filled < (behind > HEIGHT ? 16'(HEIGHT) : behind);

    wire move = !out_valid || out_ready;
    wire leaves = !filling && move;
    wire enters = in_valid && filling;
    assign in_ready = filling;

    wire last_entered = entered == ROW - 1;
    wire last_channel = c == CHANNELS - 1;
    wire last_column = last_channel && j == KERNEL_COLUMNS - 1;
    wire last_value = last_column && i == KERNEL_ROWS - 1;
    wire last_window = last_value && x == COLUMNS_OUT - 1;
    // Of an image the last window leaves, or a row enters that no window reaches.
    wire ends = leaves ? last_window && y == HEIGHT_OUT - 1 && filled == HEIGHT
                       : enters && last_entered && y == HEIGHT_OUT && filled == HEIGHT - 1;

    function automatic logic signed [15:0] after(input logic signed [15:0] from, input int step);
        after = from + 16'(step % LINES);
        if (after >= LINES) after = after - 16'(LINES);
    endfunction

    always_ff @(posedge clock)
        if (reset || ends) {filled, entered, write_line} <= '0;
        else if (enters) begin
            entered <= last_entered ? '0 : entered + 1'b1;
            if (last_entered) begin
                filled <= filled + 1'b1;
                write_line <= after(write_line, 1);
            end
        end

    always_ff @(posedge clock)
        if (reset || ends) begin
            {y, x, i, j, c} <= '0;
            line <= 16'(FIRST_LINE);
            top_line <= 16'(FIRST_LINE);
        end else if (leaves) begin
            c <= last_channel ? '0 : c + 1'b1;
            if (last_channel) j <= last_column ? '0 : j + 1'b1;
            if (last_column) begin
                i <= last_value ? '0 : i + 1'b1;
                line <= last_value ? top_line : after(line, DILATION_ROWS);
            end
            if (last_value) x <= last_window ? '0 : x + 1'b1;
            if (last_window) begin
                y <= y + 1'b1;
                line <= after(top_line, STRIDE_ROWS);
                top_line <= after(top_line, STRIDE_ROWS);
            end
        end

    wire [ADDRESS_BITS-1:0] write_at = ADDRESS_BITS'(write_line * ROW + 32'(entered));
    wire [ADDRESS_BITS-1:0] read_at = ADDRESS_BITS'(line * ROW + column * CHANNELS + 32'(c));

    always_ff @(posedge clock) if (enters) lines[write_at] <= in_code;

    logic [7:0] code;
    logic outside;
    always_ff @(posedge clock)
        if (leaves) begin
            code <= lines[read_at];
            outside <= !is_inside;
        end

    always_ff @(posedge clock)
        if (reset) out_valid <= '0;
        else if (move) out_valid <= leaves;

    assign out_code = outside ? ZERO_POINT : code;
endmodule
