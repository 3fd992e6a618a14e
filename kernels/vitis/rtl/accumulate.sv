// The sums of a QGemm: codes in, one a cycle; accumulators out, one a cycle, column by column.
//
//     acc[n] = bias[n] + sum_k (a[k] - ZERO_POINT) * (b[k][n] - zb[n])        n = 0 .. WIDTH - 1, side by side
//
// FOLDER/weights.mem has a line for every k: b[k][n] - zb[n] as WEIGHT_BITS bits each, n = 0 in the lowest;
// FOLDER/bias.mem one line of 32 bits each.  That no sum leaves 32 bits is up to who makes them.
//
// A word passes where valid and ready are both high at the clock's rising edge.  The sums of one vector leave while the
// next one's products are added: `sums` is added to, `leaving` is read.  When a sum is complete before the last vector
// has left, everything up to it waits.  in_ready depends on registers alone, so that waiting costs no path through
// several layers, but a cycle: a vector can follow another after max(DEPTH, WIDTH + 1) cycles.
module accumulate #(
    parameter DEPTH = 1,
    parameter WIDTH = 1,
    parameter COLUMN_BITS = 1,
    parameter WEIGHT_BITS = 9,
    parameter SIGNED_INPUT = 0,
    parameter ZERO_POINT = 0,
    parameter FOLDER = "."
) (
    input logic clock,
    input logic reset,
    input logic in_valid,
    output logic in_ready,
    input logic [7:0] in_code,
    output logic out_valid,
    input logic out_ready,
    output logic signed [31:0] out_sum,
    output logic [COLUMN_BITS-1:0] out_column
);
    localparam INDEX_BITS = DEPTH > 1 ? $clog2(DEPTH) : 1;
    localparam [INDEX_BITS-1:0] LAST_INDEX = INDEX_BITS'(DEPTH - 1);
    localparam [COLUMN_BITS-1:0] LAST_COLUMN = COLUMN_BITS'(WIDTH - 1);

    (* rom_style = "logic" *) logic [WIDTH*WEIGHT_BITS-1:0] weights[0:DEPTH-1];
    logic [WIDTH*32-1:0] bias[0:0];
    initial $readmemh({FOLDER, "/weights.mem"}, weights);
    initial $readmemh({FOLDER, "/bias.mem"}, bias);

    // Whose turn it is; and what each step holds: a code beside its row, its products, their sums.
    logic [INDEX_BITS-1:0] index;
    logic read_valid, read_first, read_last;
    logic product_valid, product_first, product_last;
    logic complete;
    logic draining;

    logic signed [8:0] code;
    logic [WIDTH*WEIGHT_BITS-1:0] row;
    logic [WIDTH*32-1:0] sums, leaving;

    wire is_last = index == LAST_INDEX;
    wire wait_for_room = complete && draining;
    assign in_ready = !wait_for_room;

    always_ff @(posedge clock)
        if (reset) begin
            index <= '0;
            {read_valid, read_first, read_last} <= '0;
            {product_valid, product_first, product_last} <= '0;
            complete <= '0;
        end else if (!wait_for_room) begin
            if (in_valid) index <= is_last ? '0 : index + 1'b1;
            {read_valid, read_first, read_last} <= {in_valid, index == '0, is_last};
            {product_valid, product_first, product_last} <= {read_valid, read_first, read_last};
            complete <= product_valid && product_last;
        end

    always_ff @(posedge clock)
        if (!wait_for_room) begin
            code <= $signed({SIGNED_INPUT != 0 && in_code[7], in_code}) - 9'(ZERO_POINT);
            row <= weights[index];
        end

    for (genvar n = 0; n < WIDTH; n++) begin : columns
        logic signed [WEIGHT_BITS-1:0] weight;
        logic signed [WEIGHT_BITS+8:0] product;
        logic signed [31:0] sum, start;
        assign weight = row[n*WEIGHT_BITS+:WEIGHT_BITS];
        assign start = bias[0][n*32+:32];
        assign sums[n*32+:32] = sum;

        always_ff @(posedge clock)
            if (!wait_for_room) begin
                product <= code * weight;
                if (product_valid) sum <= (product_first ? start : sum) + 32'(product);
            end
    end

    // The sums of a vector move on at once, and leave one a cycle.
    always_ff @(posedge clock)
        if (reset) draining <= '0;
        else if (!draining) draining <= complete;
        else if (out_ready) draining <= out_column != LAST_COLUMN;

    always_ff @(posedge clock)
        if (!draining) begin
            leaving <= sums;
            out_column <= '0;
        end else if (out_ready) begin
            leaving <= leaving >> 32;
            out_column <= out_column + 1'b1;
        end

    assign out_valid = draining;
    assign out_sum = leaving[31:0];
endmodule
