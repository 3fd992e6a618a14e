// model "network", SHA-256 of the ONNX file 6dd8cbb28aedd4c5900586aee3e15015eb4080e7084c4ff07f6c6fac9456ede3
module {

// IREE contracts a float32 product with the sum that takes it.  The bits of such a product pass an exclusive or with
// this zero, which is no constant to the compiler, so that both operations are rounded.
util.global private @unknown_zero <inlining_policy = #util.inline.never> = dense<0> : tensor<i32>

// Gemm "dense_1": "x" -> "sums"
//   A (vectors, K) and B (K, N), or B (N, K) transposed where transB is 1; C is 0 where it is not read.
//   acc = beta * C[n]                                        in float32, and -0 counts as 0
//   acc = acc + A[k] * (alpha * B[k, n])                     for k = 0 to K - 1, each operation rounded to float32
//   y[n] = acc
func.func @dense_1(%in0: tensor<1x8xf32>) -> (tensor<1x12xf32>) {
  %bias = arith.constant dense<"0x085bb4beffb9873e78b1edbe1a10f5be26a838bffa0e05bf7812243e98bdc2be75b4cd3d1a5af33ff94ef53e50bdc9bf"> : tensor<12xf32> loc(#at_dense_1)
  %weights = arith.constant dense<"0x614b4dbf9884a9bf82527ebe9944d73ef969913fc0ade03d4b7a0dbf5ee748bfcead3f3f9240d13f59a88b3eb7dd9dbfde5075bf6dcdcc3f6ac04f3e98b6ddbfe968abbd97e494bf061921bfe6dbf9beb59b36bf36aa0d3f383381bdf8e416bf0dbcd13e6671543f974ed2bf227283be42127bbf9a4f31beac0ba5bfe77ea93c142e1bbd28d29bbe752286bf76d9cabeaab08bbf7b77adbf3b2e663e2eff8dbf43cc953f4a72373f75b8ffbf7a548b3e0d058dbf0267073d76b7323dde84febf50066fbee9f682beab45763fa63997bf50f03c3f24ab8cbff69ea9be402957bf0770b93f6a76113f81a11b40a254243f7251583ffe36573fe54a1bbf136b8fbd8bd9ac3fb408cbbeaa54413ed3dcadbc9df51b3f52d5babec1041cbed632783eccfdd23ddb6e5dbf0a52653fa234a6bf28be99bfb128a4bf7f8b773fa9a1b8bed79578bf266991bf809ed73e050587bf75d3a2bfa62e1d3fb82d99bf9d16a5bee98fddbbff02e4bea1915dbdee5cab3f2d5304bffa30a1bf7c1aebbf35ae51be"> : tensor<8x12xf32> loc(#at_dense_1)
  %empty = tensor.empty() : tensor<1x12xf32> loc(#at_dense_1)
  %zero = util.global.load @unknown_zero : tensor<i32> loc(#at_dense_1)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%bias, %zero : tensor<12xf32>, tensor<i32>) outs(%empty : tensor<1x12xf32>) {
  ^bb0(%bias_value: f32, %zero_value: i32, %found: f32):
    %bits = arith.bitcast %bias_value : f32 to i32 loc(#at_dense_1)
    %bits_1 = arith.xori %bits, %zero_value : i32 loc(#at_dense_1)
    %same = arith.bitcast %bits_1 : i32 to f32 loc(#at_dense_1)
    linalg.yield %same : f32 loc(#at_dense_1)
  } -> tensor<1x12xf32> loc(#at_dense_1)
  %y_1 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%in0, %weights, %zero : tensor<1x8xf32>, tensor<8x12xf32>, tensor<i32>) outs(%y : tensor<1x12xf32>) {
  ^bb0(%in0_value: f32, %weights_value: f32, %zero_value_1: i32, %found_1: f32):
    %v = arith.mulf %in0_value, %weights_value : f32 loc(#at_dense_1)
    %bits_2 = arith.bitcast %v : f32 to i32 loc(#at_dense_1)
    %bits_3 = arith.xori %bits_2, %zero_value_1 : i32 loc(#at_dense_1)
    %product = arith.bitcast %bits_3 : i32 to f32 loc(#at_dense_1)
    %sum = arith.addf %found_1, %product : f32 loc(#at_dense_1)
    linalg.yield %sum : f32 loc(#at_dense_1)
  } -> tensor<1x12xf32> loc(#at_dense_1)
  return %y_1 : tensor<1x12xf32> loc(#at_dense_1)
} loc(#at_dense_1)

// Relu "relu_1": "sums" -> "positive"
//   y[n] = 0 if x[n] < 0, else x[n], so that -0 stays -0
func.func @relu_1(%in0: tensor<1x12xf32>) -> (tensor<1x12xf32>) {
  %empty = tensor.empty() : tensor<1x12xf32> loc(#at_relu_1)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%in0 : tensor<1x12xf32>) outs(%empty : tensor<1x12xf32>) {
  ^bb0(%in0_value: f32, %found: f32):
    %c = arith.constant 0x00000000 : f32 loc(#at_relu_1)
    %is = arith.cmpf olt, %in0_value, %c : f32 loc(#at_relu_1)
    %c_1 = arith.constant 0x00000000 : f32 loc(#at_relu_1)
    %v = arith.select %is, %c_1, %in0_value : f32 loc(#at_relu_1)
    linalg.yield %v : f32 loc(#at_relu_1)
  } -> tensor<1x12xf32> loc(#at_relu_1)
  return %y : tensor<1x12xf32> loc(#at_relu_1)
} loc(#at_relu_1)

// Gemm "dense_2": "positive" -> "scores"
//   A (vectors, K) and B (K, N), or B (N, K) transposed where transB is 1; C is 0 where it is not read.
//   acc = beta * C[n]                                        in float32, and -0 counts as 0
//   acc = acc + A[k] * (alpha * B[k, n])                     for k = 0 to K - 1, each operation rounded to float32
//   y[n] = acc
func.func @dense_2(%in0: tensor<1x12xf32>) -> (tensor<1x4xf32>) {
  %bias = arith.constant dense<"0x22da81be98b38dbeb808c2bec2006abf"> : tensor<4xf32> loc(#at_dense_2)
  %weights = arith.constant dense<"0x4ce4dd3f3314b23e760071bf5c34683f80a2903cf67e1dbfa42d22bf8c517ebf6918453dfcce883f3b6da6be4276d73e2b15f03fb5779bbff7d9833e4de59cbeb49587bff64e83bf8a6e7abc5823de3e451608bf9fc85e3dabe2383fe0d6973e2b615e3f0c3cec3ee1dbf93e25cfe93f31881f3f1594043ee1be353fb04b6bbfa4e7acbe86104b3f3d7b213fb730c63f11972b3c8f2dbbbf633ff93fe9e38b3fb58487bffd1ab03fccb8043dd12ee8bfa138d7be864702bfeaa0cb3f04c54abf"> : tensor<12x4xf32> loc(#at_dense_2)
  %empty = tensor.empty() : tensor<1x4xf32> loc(#at_dense_2)
  %zero = util.global.load @unknown_zero : tensor<i32> loc(#at_dense_2)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%bias, %zero : tensor<4xf32>, tensor<i32>) outs(%empty : tensor<1x4xf32>) {
  ^bb0(%bias_value: f32, %zero_value: i32, %found: f32):
    %bits = arith.bitcast %bias_value : f32 to i32 loc(#at_dense_2)
    %bits_1 = arith.xori %bits, %zero_value : i32 loc(#at_dense_2)
    %same = arith.bitcast %bits_1 : i32 to f32 loc(#at_dense_2)
    linalg.yield %same : f32 loc(#at_dense_2)
  } -> tensor<1x4xf32> loc(#at_dense_2)
  %y_1 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> ()>, affine_map<(d0, d1, d2) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%in0, %weights, %zero : tensor<1x12xf32>, tensor<12x4xf32>, tensor<i32>) outs(%y : tensor<1x4xf32>) {
  ^bb0(%in0_value: f32, %weights_value: f32, %zero_value_1: i32, %found_1: f32):
    %v = arith.mulf %in0_value, %weights_value : f32 loc(#at_dense_2)
    %bits_2 = arith.bitcast %v : f32 to i32 loc(#at_dense_2)
    %bits_3 = arith.xori %bits_2, %zero_value_1 : i32 loc(#at_dense_2)
    %product = arith.bitcast %bits_3 : i32 to f32 loc(#at_dense_2)
    %sum = arith.addf %found_1, %product : f32 loc(#at_dense_2)
    linalg.yield %sum : f32 loc(#at_dense_2)
  } -> tensor<1x4xf32> loc(#at_dense_2)
  return %y_1 : tensor<1x4xf32> loc(#at_dense_2)
} loc(#at_dense_2)

// "x" -> "sums", "positive", "scores"
func.func @main(%in: tensor<1x8xf32>) -> (tensor<1x12xf32>, tensor<1x12xf32>, tensor<1x4xf32>) {
  %dense_1 = call @dense_1(%in) : (tensor<1x8xf32>) -> tensor<1x12xf32> loc(#at_dense_1)
  %relu_1 = call @relu_1(%dense_1) : (tensor<1x12xf32>) -> tensor<1x12xf32> loc(#at_relu_1)
  %dense_2 = call @dense_2(%relu_1) : (tensor<1x12xf32>) -> tensor<1x4xf32> loc(#at_dense_2)
  return %dense_1, %relu_1, %dense_2 : tensor<1x12xf32>, tensor<1x12xf32>, tensor<1x4xf32> loc("main")
} loc("main")
}

#at_dense_1 = loc("dense_1")
#at_relu_1 = loc("relu_1")
#at_dense_2 = loc("dense_2")
