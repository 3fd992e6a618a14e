/* The double of XRT, see xrt/xrt_device.h: what becomes of a run. */
#ifndef ERT_H
#define ERT_H

enum ert_cmd_state {
    ERT_CMD_STATE_NEW = 1,
    ERT_CMD_STATE_RUNNING = 3,
    ERT_CMD_STATE_COMPLETED = 4,
    ERT_CMD_STATE_ERROR = 5,
    ERT_CMD_STATE_TIMEOUT = 8,
};

#endif
