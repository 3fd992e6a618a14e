// One bit of the number: a cycle to read the threshold in the middle of what is left, and then
//
//     out_count = 2 in_count + (t[column][(2 in_count + 1) 2^(7 - LEVEL) - 1] <= acc)
//
// FOLDER/level_<LEVEL>.mem has these thresholds, 2^LEVEL of every column, column by column.
module level #(
    parameter LEVEL = 0,
    parameter WIDTH = 1,
    parameter COLUMN_BITS = 1,
    parameter FOLDER = "."
) (
    input logic clock,
    input logic reset,
    input logic move,
    input logic in_valid,
    input logic signed [31:0] in_sum,
    input logic [COLUMN_BITS-1:0] in_column,
    input logic [7:0] in_count,
    output logic out_valid,
    output logic signed [31:0] out_sum,
    output logic [COLUMN_BITS-1:0] out_column,
    output logic [7:0] out_count
);
    localparam ENTRIES = WIDTH << LEVEL;
    localparam ADDRESS_BITS = ENTRIES > 1 ? $clog2(ENTRIES) : 1;
    localparam [7:0] DIGIT = "0" + LEVEL;

    logic [31:0] thresholds[0:ENTRIES-1];
    initial $readmemh({FOLDER, "/level_", DIGIT, ".mem"}, thresholds);

    logic signed [31:0] threshold;
    logic [6:0] count; // the highest of the eight bits is still to come: zero
    wire unused = in_count[7];
    wire [ADDRESS_BITS-1:0] address = (ADDRESS_BITS'(in_column) << LEVEL) | ADDRESS_BITS'(in_count);

    always_ff @(posedge clock)
        if (move) begin
            threshold <= thresholds[address];
            out_sum <= in_sum;
            out_column <= in_column;
            count <= in_count[6:0];
        end

    always_ff @(posedge clock)
        if (reset) out_valid <= '0;
        else if (move) out_valid <= in_valid;

    assign out_count = {count, threshold <= out_sum};
endmodule
