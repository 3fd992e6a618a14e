# The kernels as a static library for the C7x firmware, in TI's build system.
#
# `harness firmware` copies this file to vision_apps/kernels/harness/ of the Processor SDK, and beside it protocol.h,
# target/ and integer/.  The firmware's own files must name the library and call harness_kernels_register: that command
# says which lines are missing where.

ifeq ($(TARGET_CPU),C71)

include $(PRELUDE)

TARGET      := harness_kernels
TARGETTYPE  := library

CSOURCES    := target/callbacks.c
CSOURCES    += target/code_pairs.c
CSOURCES    += target/codes.c
CSOURCES    += target/max_pool.c
CSOURCES    += target/qgemm.c
CSOURCES    += target/qlinear_average_pool.c
CSOURCES    += target/qlinear_conv.c
CSOURCES    += target/qlinear_global_average_pool.c
CSOURCES    += target/quantize_linear.c
CSOURCES    += target/register.c

IDIRS       += $(VISION_APPS_PATH)/kernels/harness
IDIRS       += $(VISION_APPS_PATH)/kernels/harness/target
IDIRS       += $(VISION_APPS_PATH)/kernels/harness/integer

# cl7x takes C89 unless told otherwise.
CFLAGS      += --c11

include $(FINALE)

endif
