"""Networks in the shapes of a thesis on converters from ONNX to TFLite, with seeded weights."""
