// The end of a QGemm without floating point: accumulators in, codes out, one a cycle, nine cycles later.
//
//     y = QMIN + #{k : t[column][k] <= acc}        t ascending, k = 0 .. 254; QMIN is 0, or -128 if SIGNED_OUTPUT
//
// by binary search: eight levels, one behind the other, find the eight bits of the number from the highest on.
module requantize #(
    parameter WIDTH = 1,
    parameter COLUMN_BITS = 1,
    parameter SIGNED_OUTPUT = 0,
    parameter FOLDER = "."
) (
    input logic clock,
    input logic reset,
    input logic in_valid,
    output logic in_ready,
    input logic signed [31:0] in_sum,
    input logic [COLUMN_BITS-1:0] in_column,
    output logic out_valid,
    input logic out_ready,
    output logic [7:0] out_code
);
    localparam LEVELS = 8;

    // Between the levels; what enters level s stands at s.  All of them move together, or none.
    logic [LEVELS:0] valid;
    logic [32*(LEVELS+1)-1:0] sums;
    logic [COLUMN_BITS*(LEVELS+1)-1:0] columns;
    logic [8*(LEVELS+1)-1:0] counts;
    logic [7:0] count;

    wire move = !out_valid || out_ready;
    assign in_ready = move;
    assign valid[0] = in_valid;
    assign sums[31:0] = in_sum;
    assign columns[COLUMN_BITS-1:0] = in_column;
    assign counts[7:0] = '0;

    for (genvar s = 0; s < LEVELS; s++) begin : levels
        level #(
            .LEVEL(s),
            .WIDTH(WIDTH),
            .COLUMN_BITS(COLUMN_BITS),
            .FOLDER(FOLDER)
        ) level (
            .clock(clock),
            .reset(reset),
            .move(move),
            .in_valid(valid[s]),
            .in_sum(sums[32*s+:32]),
            .in_column(columns[COLUMN_BITS*s+:COLUMN_BITS]),
            .in_count(counts[8*s+:8]),
            .out_valid(valid[s+1]),
            .out_sum(sums[32*(s+1)+:32]),
            .out_column(columns[COLUMN_BITS*(s+1)+:COLUMN_BITS]),
            .out_count(counts[8*(s+1)+:8])
        );
    end

    assign count = counts[8*LEVELS+:8];
    wire unused = &{1'b0, sums[32*LEVELS+:32], columns[COLUMN_BITS*LEVELS+:COLUMN_BITS]};

    always_ff @(posedge clock)
        if (reset) out_valid <= '0;
        else if (move) out_valid <= valid[LEVELS];

    always_ff @(posedge clock) if (move) out_code <= {count[7] ^ (SIGNED_OUTPUT != 0), count[6:0]};
endmodule
