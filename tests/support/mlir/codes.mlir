// model "network", SHA-256 of the ONNX file eae43ca3d692ebb0471ddd712557e02a1bd8b3d137863a93b2757ecd20046b56
module {

// IREE contracts a float32 product with the sum that takes it.  The bits of such a product pass an exclusive or with
// this zero, which is no constant to the compiler, so that both operations are rounded.
util.global private @unknown_zero <inlining_policy = #util.inline.never> = dense<0> : tensor<i32>

// QuantizeLinear "quantize": "x" -> "quantize_out"
//   v = x / scale                                                  in float32
//   v = min(max(v, LOW - zero_point), HIGH - zero_point)           NaN becomes LOW - zero_point
//   y = round_half_even(v) + zero_point                            uint8 or int8, as zero_point is
func.func @quantize(%in0: tensor<1x3xf32>) -> (tensor<1x3xi8>) {
  %empty = tensor.empty() : tensor<1x3xi8> loc(#at_quantize)
  %zero = util.global.load @unknown_zero : tensor<i32> loc(#at_quantize)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%in0, %zero : tensor<1x3xf32>, tensor<i32>) outs(%empty : tensor<1x3xi8>) {
  ^bb0(%in0_value: f32, %zero_value: i32, %found: i8):
    %c = arith.constant 0x3C3E1D7C : f32 loc(#at_quantize)
    %v = arith.divf %in0_value, %c : f32 loc(#at_quantize)
    %bits = arith.bitcast %v : f32 to i32 loc(#at_quantize)
    %bits_1 = arith.xori %bits, %zero_value : i32 loc(#at_quantize)
    %quotient = arith.bitcast %bits_1 : i32 to f32 loc(#at_quantize)
    %c_1 = arith.constant 0 : i32 loc(#at_quantize)
    %low = arith.constant 0x00000000 : f32 loc(#at_quantize)
    %high = arith.constant 0x437F0000 : f32 loc(#at_quantize)
    %is = arith.cmpf ogt, %quotient, %low : f32 loc(#at_quantize)
    %v_1 = arith.select %is, %quotient, %low : f32 loc(#at_quantize)
    %is_1 = arith.cmpf olt, %v_1, %high : f32 loc(#at_quantize)
    %v_2 = arith.select %is_1, %v_1, %high : f32 loc(#at_quantize)
    %rounded = math.roundeven %v_2 : f32 loc(#at_quantize)
    %whole = arith.fptosi %rounded : f32 to i32 loc(#at_quantize)
    %zero_point = arith.constant 0 : i32 loc(#at_quantize)
    %code = arith.addi %whole, %zero_point : i32 loc(#at_quantize)
    %y_1 = arith.trunci %code : i32 to i8 loc(#at_quantize)
    linalg.yield %y_1 : i8 loc(#at_quantize)
  } -> tensor<1x3xi8> loc(#at_quantize)
  return %y : tensor<1x3xi8> loc(#at_quantize)
} loc(#at_quantize)

// QGemm "layer_0": "quantize_out" -> "layer_0_out"
//   A (vectors, K) and B (K, N), or B (N, K) transposed where transB is 1, are codes; C is 0 where it is not read.
//   acc[n] = C[n] + sum over k of (A[k] - a_zero_point) * (B[k, n] - b_zero_point[n])      in int32
//   m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale              in float32, in this order; alpha is 1 if not given
//   v[n] = float32(acc[n]) * m[n]                                  in float32, the conversion rounded half to even
//   v[n] = min(max(v[n], LOW - y_zero_point), HIGH - y_zero_point)
//   y[n] = round_half_even(v[n]) + y_zero_point                    of A's type
//   Without y_scale and y_zero_point the output is float32:
//   y[n] = float32(acc[n]) * ((alpha * a_scale) * b_scale[n])
//   A b_scale, b_zero_point or C of one value serves every n.
func.func @layer_0(%in0: tensor<1x3xi8>) -> (tensor<1x4xi8>) {
  %bias = arith.constant dense<"0x900a000061f7ffff1eefffff2fffffff"> : tensor<4xi32> loc(#at_layer_0)
  %weights = arith.constant dense<"0x0608e7ec07dada22094bd3af"> : tensor<3x4xi8> loc(#at_layer_0)
  %empty = tensor.empty() : tensor<1x4xi32> loc(#at_layer_0)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%bias : tensor<4xi32>) outs(%empty : tensor<1x4xi32>) {
  ^bb0(%bias_value: i32, %found: i32):
    linalg.yield %bias_value : i32 loc(#at_layer_0)
  } -> tensor<1x4xi32> loc(#at_layer_0)
  %y_1 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%in0, %weights : tensor<1x3xi8>, tensor<3x4xi8>) outs(%y : tensor<1x4xi32>) {
  ^bb0(%in0_value: i8, %weights_value: i8, %found_1: i32):
    %wide = arith.extui %in0_value : i8 to i32 loc(#at_layer_0)
    %zero_point = arith.constant 0 : i32 loc(#at_layer_0)
    %centred = arith.subi %wide, %zero_point : i32 loc(#at_layer_0)
    %zero_point_1 = arith.constant 0 : i32 loc(#at_layer_0)
    %wide_1 = arith.extsi %weights_value : i8 to i32 loc(#at_layer_0)
    %weight = arith.subi %wide_1, %zero_point_1 : i32 loc(#at_layer_0)
    %product = arith.muli %centred, %weight : i32 loc(#at_layer_0)
    %sum = arith.addi %found_1, %product : i32 loc(#at_layer_0)
    linalg.yield %sum : i32 loc(#at_layer_0)
  } -> tensor<1x4xi32> loc(#at_layer_0)
  %multiplier = arith.constant dense<"0xeb9def3beb9def3beb9def3beb9def3b"> : tensor<4xf32> loc(#at_layer_0)
  %empty_1 = tensor.empty() : tensor<1x4xi8> loc(#at_layer_0)
  %y_2 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%y_1, %multiplier : tensor<1x4xi32>, tensor<4xf32>) outs(%empty_1 : tensor<1x4xi8>) {
  ^bb0(%y_1_value: i32, %multiplier_value: f32, %found_2: i8):
    %number = arith.sitofp %y_1_value : i32 to f32 loc(#at_layer_0)
    %v = arith.mulf %number, %multiplier_value : f32 loc(#at_layer_0)
    %low = arith.constant 0x00000000 : f32 loc(#at_layer_0)
    %high = arith.constant 0x437F0000 : f32 loc(#at_layer_0)
    %is = arith.cmpf ogt, %v, %low : f32 loc(#at_layer_0)
    %v_1 = arith.select %is, %v, %low : f32 loc(#at_layer_0)
    %is_1 = arith.cmpf olt, %v_1, %high : f32 loc(#at_layer_0)
    %v_2 = arith.select %is_1, %v_1, %high : f32 loc(#at_layer_0)
    %rounded = math.roundeven %v_2 : f32 loc(#at_layer_0)
    %whole = arith.fptosi %rounded : f32 to i32 loc(#at_layer_0)
    %zero_point_2 = arith.constant 0 : i32 loc(#at_layer_0)
    %code = arith.addi %whole, %zero_point_2 : i32 loc(#at_layer_0)
    %y_3 = arith.trunci %code : i32 to i8 loc(#at_layer_0)
    linalg.yield %y_3 : i8 loc(#at_layer_0)
  } -> tensor<1x4xi8> loc(#at_layer_0)
  return %y_2 : tensor<1x4xi8> loc(#at_layer_0)
} loc(#at_layer_0)

// QGemm "layer_1": "layer_0_out" -> "layer_1_out"
//   A (vectors, K) and B (K, N), or B (N, K) transposed where transB is 1, are codes; C is 0 where it is not read.
//   acc[n] = C[n] + sum over k of (A[k] - a_zero_point) * (B[k, n] - b_zero_point[n])      in int32
//   m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale              in float32, in this order; alpha is 1 if not given
//   v[n] = float32(acc[n]) * m[n]                                  in float32, the conversion rounded half to even
//   v[n] = min(max(v[n], LOW - y_zero_point), HIGH - y_zero_point)
//   y[n] = round_half_even(v[n]) + y_zero_point                    of A's type
//   Without y_scale and y_zero_point the output is float32:
//   y[n] = float32(acc[n]) * ((alpha * a_scale) * b_scale[n])
//   A b_scale, b_zero_point or C of one value serves every n.
func.func @layer_1(%in0: tensor<1x4xi8>) -> (tensor<1x2xi8>) {
  %bias = arith.constant dense<"0xe4fcffffbcfbffff"> : tensor<2xi32> loc(#at_layer_1)
  %weights = arith.constant dense<"0xb0ef9df49ff443f2"> : tensor<4x2xi8> loc(#at_layer_1)
  %empty = tensor.empty() : tensor<1x2xi32> loc(#at_layer_1)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%bias : tensor<2xi32>) outs(%empty : tensor<1x2xi32>) {
  ^bb0(%bias_value: i32, %found: i32):
    linalg.yield %bias_value : i32 loc(#at_layer_1)
  } -> tensor<1x2xi32> loc(#at_layer_1)
  %y_1 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%in0, %weights : tensor<1x4xi8>, tensor<4x2xi8>) outs(%y : tensor<1x2xi32>) {
  ^bb0(%in0_value: i8, %weights_value: i8, %found_1: i32):
    %wide = arith.extui %in0_value : i8 to i32 loc(#at_layer_1)
    %zero_point = arith.constant 0 : i32 loc(#at_layer_1)
    %centred = arith.subi %wide, %zero_point : i32 loc(#at_layer_1)
    %zero_point_1 = arith.constant 0 : i32 loc(#at_layer_1)
    %wide_1 = arith.extsi %weights_value : i8 to i32 loc(#at_layer_1)
    %weight = arith.subi %wide_1, %zero_point_1 : i32 loc(#at_layer_1)
    %product = arith.muli %centred, %weight : i32 loc(#at_layer_1)
    %sum = arith.addi %found_1, %product : i32 loc(#at_layer_1)
    linalg.yield %sum : i32 loc(#at_layer_1)
  } -> tensor<1x2xi32> loc(#at_layer_1)
  %multiplier = arith.constant dense<"0xe7ee4c3ce7ee4c3c"> : tensor<2xf32> loc(#at_layer_1)
  %empty_1 = tensor.empty() : tensor<1x2xi8> loc(#at_layer_1)
  %y_2 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%y_1, %multiplier : tensor<1x2xi32>, tensor<2xf32>) outs(%empty_1 : tensor<1x2xi8>) {
  ^bb0(%y_1_value: i32, %multiplier_value: f32, %found_2: i8):
    %number = arith.sitofp %y_1_value : i32 to f32 loc(#at_layer_1)
    %v = arith.mulf %number, %multiplier_value : f32 loc(#at_layer_1)
    %low = arith.constant 0x00000000 : f32 loc(#at_layer_1)
    %high = arith.constant 0x437F0000 : f32 loc(#at_layer_1)
    %is = arith.cmpf ogt, %v, %low : f32 loc(#at_layer_1)
    %v_1 = arith.select %is, %v, %low : f32 loc(#at_layer_1)
    %is_1 = arith.cmpf olt, %v_1, %high : f32 loc(#at_layer_1)
    %v_2 = arith.select %is_1, %v_1, %high : f32 loc(#at_layer_1)
    %rounded = math.roundeven %v_2 : f32 loc(#at_layer_1)
    %whole = arith.fptosi %rounded : f32 to i32 loc(#at_layer_1)
    %zero_point_2 = arith.constant 0 : i32 loc(#at_layer_1)
    %code = arith.addi %whole, %zero_point_2 : i32 loc(#at_layer_1)
    %y_3 = arith.trunci %code : i32 to i8 loc(#at_layer_1)
    linalg.yield %y_3 : i8 loc(#at_layer_1)
  } -> tensor<1x2xi8> loc(#at_layer_1)
  return %y_2 : tensor<1x2xi8> loc(#at_layer_1)
} loc(#at_layer_1)

// DequantizeLinear "dequantize": "layer_1_out" -> "dequantize_out"
//   y = float32(x - zero_point) * scale                            in float32
func.func @dequantize(%in0: tensor<1x2xi8>) -> (tensor<1x2xf32>) {
  %empty = tensor.empty() : tensor<1x2xf32> loc(#at_dequantize)
  %zero = util.global.load @unknown_zero : tensor<i32> loc(#at_dequantize)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%in0, %zero : tensor<1x2xi8>, tensor<i32>) outs(%empty : tensor<1x2xf32>) {
  ^bb0(%in0_value: i8, %zero_value: i32, %found: f32):
    %wide = arith.extui %in0_value : i8 to i32 loc(#at_dequantize)
    %c = arith.constant 0 : i32 loc(#at_dequantize)
    %v = arith.subi %wide, %c : i32 loc(#at_dequantize)
    %number = arith.sitofp %v : i32 to f32 loc(#at_dequantize)
    %c_1 = arith.constant 0x3C1F9332 : f32 loc(#at_dequantize)
    %v_1 = arith.mulf %number, %c_1 : f32 loc(#at_dequantize)
    %bits = arith.bitcast %v_1 : f32 to i32 loc(#at_dequantize)
    %bits_1 = arith.xori %bits, %zero_value : i32 loc(#at_dequantize)
    %product = arith.bitcast %bits_1 : i32 to f32 loc(#at_dequantize)
    linalg.yield %product : f32 loc(#at_dequantize)
  } -> tensor<1x2xf32> loc(#at_dequantize)
  return %y : tensor<1x2xf32> loc(#at_dequantize)
} loc(#at_dequantize)

// ArgMax "advisory": "dequantize_out" -> "advisory_out"
//   y = the column of the largest value, the first of equal ones, or the last where select_last_index is 1
func.func @advisory(%in0: tensor<1x2xf32>) -> (tensor<1x1xi64>) {
  %number = arith.constant 0xFF800000 : f32 loc(#at_advisory)
  %empty = tensor.empty() : tensor<1xf32> loc(#at_advisory)
  %filled = linalg.fill ins(%number : f32) outs(%empty : tensor<1xf32>) -> tensor<1xf32> loc(#at_advisory)
  %y = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
    iterator_types = ["parallel", "reduction"]}
    ins(%in0 : tensor<1x2xf32>) outs(%filled : tensor<1xf32>) {
  ^bb0(%in0_value: f32, %found: f32):
    %is = arith.cmpf ogt, %in0_value, %found : f32 loc(#at_advisory)
    %best = arith.select %is, %in0_value, %found : f32 loc(#at_advisory)
    linalg.yield %best : f32 loc(#at_advisory)
  } -> tensor<1xf32> loc(#at_advisory)
  %number_1 = arith.constant 2 : i64 loc(#at_advisory)
  %empty_1 = tensor.empty() : tensor<1xi64> loc(#at_advisory)
  %filled_1 = linalg.fill ins(%number_1 : i64) outs(%empty_1 : tensor<1xi64>) -> tensor<1xi64> loc(#at_advisory)
  %y_1 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>],
    iterator_types = ["parallel", "reduction"]}
    ins(%in0, %y : tensor<1x2xf32>, tensor<1xf32>) outs(%filled_1 : tensor<1xi64>) {
  ^bb0(%in0_value_1: f32, %y_value: f32, %found_1: i64):
    %at = linalg.index 1 : index loc(#at_advisory)
    %column = arith.index_cast %at : index to i64 loc(#at_advisory)
    %v = arith.minsi %column, %found_1 : i64 loc(#at_advisory)
    %is_1 = arith.cmpf oeq, %in0_value_1, %y_value : f32 loc(#at_advisory)
    %v_1 = arith.select %is_1, %v, %found_1 : i64 loc(#at_advisory)
    linalg.yield %v_1 : i64 loc(#at_advisory)
  } -> tensor<1xi64> loc(#at_advisory)
  %shaped = tensor.expand_shape %y_1 [[0, 1]] output_shape [1, 1] : tensor<1xi64> into tensor<1x1xi64> loc(#at_advisory)
  return %shaped : tensor<1x1xi64> loc(#at_advisory)
} loc(#at_advisory)

// "x" -> "quantize_out", "layer_0_out", "layer_1_out", "dequantize_out", "advisory_out"
func.func @main(%in: tensor<1x3xf32>) -> (tensor<1x3xi8>, tensor<1x4xi8>, tensor<1x2xi8>, tensor<1x2xf32>, tensor<1x1xi64>) {
  %quantize = call @quantize(%in) : (tensor<1x3xf32>) -> tensor<1x3xi8> loc(#at_quantize)
  %layer_0 = call @layer_0(%quantize) : (tensor<1x3xi8>) -> tensor<1x4xi8> loc(#at_layer_0)
  %layer_1 = call @layer_1(%layer_0) : (tensor<1x4xi8>) -> tensor<1x2xi8> loc(#at_layer_1)
  %dequantize = call @dequantize(%layer_1) : (tensor<1x2xi8>) -> tensor<1x2xf32> loc(#at_dequantize)
  %advisory = call @advisory(%dequantize) : (tensor<1x2xf32>) -> tensor<1x1xi64> loc(#at_advisory)
  return %quantize, %layer_0, %layer_1, %dequantize, %advisory : tensor<1x3xi8>, tensor<1x4xi8>, tensor<1x2xi8>, tensor<1x2xf32>, tensor<1x1xi64> loc("main")
} loc("main")
}

#at_quantize = loc("quantize")
#at_layer_0 = loc("layer_0")
#at_layer_1 = loc("layer_1")
#at_dequantize = loc("dequantize")
#at_advisory = loc("advisory")
