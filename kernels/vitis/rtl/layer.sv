// A QGemm: a vector of DEPTH codes in, WIDTH values out, one each a cycle at the most.
//
// With CODES the values are codes, in the lowest 8 bits; without, for a layer whose output is float32, they are the
// accumulators, which the processor scales.  What the constants are, and how words pass: accumulate.sv, requantize.sv.
//
//     from the cycle of a vector's first code to that of its first value:  DEPTH + 3, with CODES DEPTH + 12
//     to that of its last value:                                           WIDTH - 1 more
//     from a vector to the next:                                           max(DEPTH, WIDTH + 1)
//
// where nothing waits for its neighbours; harness/targets/vitis/rtl.py has the same numbers.
module layer #(
    parameter DEPTH = 1,
    parameter WIDTH = 1,
    parameter WEIGHT_BITS = 9,
    parameter SIGNED_INPUT = 0,
    parameter ZERO_POINT = 0,
    parameter CODES = 1,
    parameter SIGNED_OUTPUT = 0,
    parameter FOLDER = "."
) (
    input logic clock,
    input logic reset,
    input logic in_valid,
    output logic in_ready,
    input logic [7:0] in_code,
    output logic out_valid,
    input logic out_ready,
    output logic [31:0] out_value
);
    localparam COLUMN_BITS = WIDTH > 1 ? $clog2(WIDTH) : 1;

    logic sum_valid, sum_ready;
    logic signed [31:0] sum;
    logic [COLUMN_BITS-1:0] column;

    accumulate #(
        .DEPTH(DEPTH),
        .WIDTH(WIDTH),
        .COLUMN_BITS(COLUMN_BITS),
        .WEIGHT_BITS(WEIGHT_BITS),
        .SIGNED_INPUT(SIGNED_INPUT),
        .ZERO_POINT(ZERO_POINT),
        .FOLDER(FOLDER)
    ) accumulate (
        .clock(clock),
        .reset(reset),
        .in_valid(in_valid),
        .in_ready(in_ready),
        .in_code(in_code),
        .out_valid(sum_valid),
        .out_ready(sum_ready),
        .out_sum(sum),
        .out_column(column)
    );

    if (CODES != 0) begin : requantized
        logic [7:0] code;
        assign out_value = {24'b0, code};

        requantize #(
            .WIDTH(WIDTH),
            .COLUMN_BITS(COLUMN_BITS),
            .SIGNED_OUTPUT(SIGNED_OUTPUT),
            .FOLDER(FOLDER)
        ) requantize (
            .clock(clock),
            .reset(reset),
            .in_valid(sum_valid),
            .in_ready(sum_ready),
            .in_sum(sum),
            .in_column(column),
            .out_valid(out_valid),
            .out_ready(out_ready),
            .out_code(code)
        );
    end else begin : raw
        wire unused = &{1'b0, column};
        assign out_valid = sum_valid;
        assign sum_ready = out_ready;
        assign out_value = sum;
    end
endmodule
