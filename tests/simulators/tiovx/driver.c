/* A network of one QuantizeLinear and one QGemm under TIOVX, and everything that a program can do wrong with it:
 *
 *     driver CORE ROWS RUNS [MISUSE]        CORE: DSP_C7-1, MPU-0, or both for a graph on each, in a thread of its own
 *
 * Reads quantize.bin, qgemm.bin (constants, see protocol.h) and input.bin (float32, ROWS vectors) in the current
 * folder, writes output_CORE.bin and accumulators_CORE.bin.  Exits with 1 where TIOVX returns a status, and tells it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <TI/tivx.h>
#include <TI/tivx_target_kernel.h>
#include <utils/app_init/include/app_init.h>

#include "harness_kernels.h"
#include "protocol.h"

enum { NODES = 2, TENSORS = 3, LARGEST = 1 << 22 };

static const char *misuse = "";
static vx_size rows;
static unsigned runs;
static vx_context context;

struct item {
    const char *core;
    vx_user_data_object constants[NODES];
    struct head heads[NODES];
    vx_tensor tensors[TENSORS], sums;
    vx_scalar vectors;
    vx_graph graph;
    vx_node nodes[NODES];
};

static int does(const char *what)
{
    return strcmp(misuse, what) == 0;
}

static void check(vx_status status, const char *call)
{
    if (status == VX_SUCCESS)
        return;
    printf("status %d: %s\n", status, call);
    fflush(stdout);
    _exit(1);
}

#define CALL(call) check((call), #call)
#define MADE(object) check(vxGetStatus((vx_reference)(object)), #object)

static size_t read_file(const char *name, void *content)
{
    FILE *file = fopen(name, "rb");
    const size_t bytes = file ? fread(content, 1, LARGEST, file) : 0;
    if (file)
        fclose(file);
    return bytes;
}

static void write_file(const char *kind, const char *core, const void *content, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s.bin", kind, core);
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(content, 1, bytes, file) != bytes || fclose(file) != 0)
        _exit(2);
}

/* Kernels. */

static vx_status VX_CALLBACK validate(vx_node node, const vx_reference parameters[], vx_uint32 count,
                                      vx_meta_format metas[])
{
    vx_size dims[2], number = 2;
    vx_enum type;
    (void)node, (void)count;
    CALL(vxQueryTensor((vx_tensor)parameters[RESULT], VX_TENSOR_DIMS, dims, sizeof dims));
    CALL(vxQueryTensor((vx_tensor)parameters[RESULT], VX_TENSOR_DATA_TYPE, &type, sizeof type));
    if (does("validate-fails"))
        return VX_ERROR_INVALID_VALUE;
    dims[0] += does("meta-dims");
    type = does("meta-type") ? VX_TYPE_INT32 : type;
    const vx_size size = does("meta-size") ? 4 : sizeof number;
    CALL(vxSetMetaFormatAttribute(metas[RESULT], VX_TENSOR_NUMBER_OF_DIMS, &number, size));
    if (!does("meta-unset"))
        CALL(vxSetMetaFormatAttribute(metas[RESULT], VX_TENSOR_DIMS, dims, sizeof dims));
    CALL(vxSetMetaFormatAttribute(metas[RESULT], VX_TENSOR_DATA_TYPE, &type, sizeof type));
    return VX_SUCCESS;
}

static vx_status VX_CALLBACK initialize(vx_node node, const vx_reference *parameters, vx_uint32 count)
{
    (void)node, (void)parameters, (void)count;
    return does("initialize-fails") ? VX_FAILURE : VX_SUCCESS;
}

static vx_status VX_CALLBACK on_host(vx_node node, const vx_reference *parameters, vx_uint32 count)
{
    return initialize(node, parameters, count);
}

static vx_kernel kernels[NODES];

static void add_kernel(int which, const char *name)
{
    static const vx_enum types[] = {VX_TYPE_USER_DATA_OBJECT, VX_TYPE_SCALAR, VX_TYPE_TENSOR, VX_TYPE_TENSOR};
    vx_enum id;
    CALL(vxAllocateUserKernelId(context, &id));
    vx_kernel kernel = kernels[which] = vxAddUserKernel(context, name, id, does("host-function") ? on_host : NULL,
                                                        PARAMETERS, validate, initialize, initialize);
    MADE(kernel);
    for (vx_uint32 i = does("kernel-parameter-missing"); i < PARAMETERS; ++i)
        CALL(vxAddParameterToKernel(kernel, i + does("kernel-parameter-index"),
                                    i == RESULT || (does("kernel-direction") && i == VECTORS) ? VX_OUTPUT : VX_INPUT,
                                    types[i], VX_PARAMETER_STATE_REQUIRED));
    CALL(tivxAddKernelTarget(kernel, does("kernel-target") ? "DSP-9" : TIVX_TARGET_DSP_C7_1));
    if (!does("kernel-one-target"))
        CALL(tivxAddKernelTarget(kernel, TIVX_TARGET_MPU_0));
    if (!does("kernel-open"))
        CALL(vxFinalizeKernel(kernel));
    if (does("kernel-changed"))
        CALL(tivxAddKernelTarget(kernel, TIVX_TARGET_MPU_0));
}

static vx_status VX_CALLBACK publish(vx_context unused)
{
    (void)unused;
    add_kernel(0, KERNEL_QUANTIZE_LINEAR);
    add_kernel(1, does("kernel-name") ? KERNEL_QUANTIZE_LINEAR : KERNEL_QGEMM);
    return VX_SUCCESS;
}

static vx_status VX_CALLBACK unpublish(vx_context unused)
{
    (void)unused;
    for (int i = does("leak-kernel"); i < NODES; ++i)
        CALL(vxRemoveKernel(kernels[i]));
    return VX_SUCCESS;
}

static vx_status VX_CALLBACK nothing(tivx_target_kernel_instance kernel, tivx_obj_desc_t *parameters[], uint16_t count,
                                     void *unused)
{
    (void)kernel, (void)parameters, (void)count, (void)unused;
    return VX_SUCCESS;
}

static vx_status VX_CALLBACK no_command(tivx_target_kernel_instance kernel, uint32_t command,
                                        tivx_obj_desc_t *references[], uint16_t count, void *unused)
{
    (void)command;
    return nothing(kernel, references, count, unused);
}

static tivx_target_kernel add_target_kernel(const char *name, const char *core)
{
    return tivxAddTargetKernelByName(name, core, nothing, nothing, does("target-callback") ? NULL : nothing, no_command,
                                     NULL);
}

static void misuse_target_kernels(void)
{
    char name[32];
    tivx_target_kernel kernel = NULL;
    if (does("target-core"))
        kernel = add_target_kernel("org.x", "DSP-9");
    if (does("target-foreign"))
        kernel = add_target_kernel("org.x", TIVX_TARGET_DSP_C7_1);
    if (does("target-callback"))
        kernel = add_target_kernel("org.x", TIVX_TARGET_MPU_0);
    if (does("target-twice"))
        kernel = add_target_kernel(KERNEL_QGEMM, TIVX_TARGET_MPU_0);
    if (does("target-removed-twice")) {
        kernel = add_target_kernel("org.x", TIVX_TARGET_MPU_0);
        CALL(tivxRemoveTargetKernel(kernel));
        CALL(tivxRemoveTargetKernel(kernel));
    }
    if (does("limit-target-kernels"))
        for (int i = 0; i < 256; ++i) {
            snprintf(name, sizeof name, "org.x.%d", i);
            check(add_target_kernel(name, TIVX_TARGET_MPU_0) ? VX_SUCCESS : VX_FAILURE, "tivxAddTargetKernelByName");
        }
    if (does("outside-alloc"))
        tivxMemAlloc(64, TIVX_MEM_EXTERNAL);
    if (does("outside-free"))
        tivxMemFree(&name, 1, TIVX_MEM_EXTERNAL);
    if (does("outside-pointer"))
        tivxMemShared2TargetPtr(&(tivx_shared_mem_ptr_t){0});
    if (does("outside-context"))
        tivxSetTargetKernelInstanceContext(NULL, &name, 1);
    if (does("outside-map"))
        tivxMemBufferMap(&name, 1, VX_MEMORY_TYPE_HOST, VX_READ_ONLY);
    (void)kernel;
}

/* The graph. */

static void create_constants(struct item *item, int which, const char *file)
{
    char *content = malloc(LARGEST);
    const size_t bytes = read_file(file, content);
    memcpy(&item->heads[which], content, sizeof item->heads[which]);
    item->constants[which] = vxCreateUserDataObject(context, TYPE_CONSTANTS, bytes, does("unwritten") ? NULL : content);
    MADE(item->constants[which]);
    free(content);
}

static vx_tensor create_tensor(vx_size width, vx_enum type)
{
    const vx_size dims[] = {width, does("tensor-dims") ? 0 : rows};
    vx_tensor tensor = vxCreateTensor(context, 2, dims, type, 0);
    MADE(tensor);
    return tensor;
}

static void create_objects(struct item *item)
{
    const vx_uint32 vectors = (vx_uint32)rows;
    create_constants(item, 0, "quantize.bin");
    create_constants(item, 1, "qgemm.bin");
    item->vectors = vxCreateScalar(context, does("scalar-type") ? VX_TYPE_FLOAT32 : VX_TYPE_UINT32, &vectors);
    MADE(item->vectors);
    item->tensors[0] = create_tensor(item->heads[0].width, VX_TYPE_FLOAT32);
    item->tensors[1] = create_tensor(item->heads[0].width, VX_TYPE_UINT8);
    item->tensors[2] = create_tensor(item->heads[1].width, VX_TYPE_UINT8);
    item->sums = create_tensor(item->heads[1].width, VX_TYPE_INT32);
}

static void create_node(struct item *item, int which, const char *name)
{
    vx_kernel kernel = does("kernel-open") ? kernels[which] : vxGetKernelByName(context, name);
    MADE(kernel);
    vx_node node = item->nodes[which] = vxCreateGenericNode(item->graph, kernel);
    MADE(node);
    CALL(vxReleaseKernel(&kernel));
    vx_reference references[] = {(vx_reference)item->constants[which], (vx_reference)item->vectors,
                                 (vx_reference)item->tensors[which], (vx_reference)item->tensors[which + 1]};
    if (does("parameter-type"))
        references[SOURCE] = (vx_reference)item->vectors;
    if (does("circle") && which == 0)
        references[SOURCE] = (vx_reference)item->tensors[2];
    if (does("two-writers") && which == 1)
        references[RESULT] = (vx_reference)item->tensors[1];
    for (vx_uint32 i = does("parameter-missing"); i < PARAMETERS; ++i)
        CALL(vxSetParameterByIndex(node, i + does("parameter-index"), references[i]));
    if (does("parameter-twice"))
        CALL(vxSetParameterByIndex(node, 0, references[0]));
    if (!does("no-target"))
        CALL(vxSetNodeTarget(node, VX_TARGET_STRING, does("node-target") ? "DSP-9" : item->core));
}

static void create_graph(struct item *item)
{
    item->graph = vxCreateGraph(context);
    MADE(item->graph);
    /* In the wrong order: TIOVX sorts. */
    create_node(item, 1, KERNEL_QGEMM);
    create_node(item, 0, does("kernel-unknown") ? "org.x" : KERNEL_QUANTIZE_LINEAR);
    if (does("limit-instances"))
        for (int i = 0; i < 63; ++i) {
            item->tensors[2] = create_tensor(item->heads[1].width, VX_TYPE_UINT8);
            create_node(item, 1, KERNEL_QGEMM);
        }
    if (does("process-unverified"))
        CALL(vxProcessGraph(item->graph));
    if (does("command-unverified"))
        CALL(tivxNodeSendCommand(item->nodes[1], 0, COMMAND_IDENTIFY, NULL, 0));
    CALL(vxVerifyGraph(item->graph));
    if (does("verify-twice"))
        CALL(vxVerifyGraph(item->graph));
    if (does("change-verified"))
        CALL(vxSetNodeTarget(item->nodes[0], VX_TARGET_STRING, item->core));
}

static void copy(vx_tensor tensor, vx_size width, vx_size element, void *user, vx_enum usage)
{
    const vx_size start[] = {0, 0}, end[] = {width, rows + does("copy-end")};
    const vx_size stride[] = {element, width * element - does("copy-stride")};
    CALL(vxCopyTensorPatch(tensor, 2 + does("copy-count"), start, end, stride, user, usage, VX_MEMORY_TYPE_HOST));
}

static void *process(void *item)
{
    CALL(vxProcessGraph(((struct item *)item)->graph));
    return NULL;
}

/* Start the graph; until the double has said the line that the core hangs. */
static void process_until_it_hangs(struct item *item)
{
    pthread_t thread;
    int ends[2];
    char said = 0;
    const int heard = dup(STDERR_FILENO);
    if (heard < 0 || pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        abort();
    pthread_create(&thread, NULL, process, item);
    while (said != '\n')
        if (read(ends[0], &said, 1) != 1 || write(heard, &said, 1) != 1)
            abort();
    dup2(heard, STDERR_FILENO);
}

/* The core hangs (HARNESS_DOUBLE_FAULT=hang@1), and the program does not care. */
static void misuse_running(struct item *item)
{
    vx_uint32 number = 1;
    process_until_it_hangs(item);
    if (does("running-copy"))
        vxCopyScalar(item->vectors, &number, VX_WRITE_ONLY, VX_MEMORY_TYPE_HOST);
    if (does("running-process"))
        vxProcessGraph(item->graph);
    if (does("running-release"))
        vxReleaseTensor(&item->tensors[1]);
    if (does("running-release-graph"))
        vxReleaseGraph(&item->graph);
    _exit(0);
}

static void ask_statuses(struct item *item)
{
    vx_status status;
    for (int i = 0; i < NODES; ++i) {
        CALL(vxQueryNode(item->nodes[i], VX_NODE_STATUS, &status, sizeof status));
        check(status, "VX_NODE_STATUS");
    }
}

static void run(struct item *item)
{
    const vx_size width = item->heads[1].width;
    char *values = malloc(LARGEST);
    if (does("other-input-first")) {
        memset(values, 0x3f, LARGEST);
        copy(item->tensors[0], item->heads[0].width, sizeof(float), values, VX_WRITE_ONLY);
        CALL(vxProcessGraph(item->graph));
    }
    read_file("input.bin", values);
    if (!does("unwritten-input"))
        copy(item->tensors[0], item->heads[0].width, sizeof(float), values, VX_WRITE_ONLY);
    if (strncmp(misuse, "running-", 8) == 0)
        misuse_running(item);
    for (unsigned i = 0; i < runs; ++i) {
        CALL(vxProcessGraph(item->graph));
        if (!does("status-unasked"))
            ask_statuses(item);
    }
    copy(item->tensors[2], width, 1, values, VX_READ_ONLY);
    write_file("output", item->core, values, rows * width);
    free(values);
}

static void accumulate(struct item *item)
{
    const vx_size bytes = rows * item->heads[1].width * sizeof(int32_t);
    int32_t *sums = malloc(bytes);
    vx_reference references[] = {(vx_reference)item->constants[1], (vx_reference)item->vectors,
                                 (vx_reference)item->tensors[1], (vx_reference)item->sums};
    CALL(tivxNodeSendCommand(item->nodes[1], does("replica"), COMMAND_ACCUMULATE, references, PARAMETERS));
    copy(item->sums, item->heads[1].width, sizeof(int32_t), sums, VX_READ_ONLY);
    write_file("accumulators", item->core, sums, bytes);
    free(sums);
}

static void identify(struct item *item)
{
    struct identity identity;
    const vx_size bytes = sizeof identity - does("answer-size");
    vx_user_data_object object = vxCreateUserDataObject(context, TYPE_IDENTITY, bytes, NULL);
    MADE(object);
    CALL(tivxNodeSendCommand(item->nodes[1], 0, COMMAND_IDENTIFY, (vx_reference[]){(vx_reference)object}, 1));
    CALL(vxCopyUserDataObject(object, does("object-size"), sizeof identity, &identity, VX_READ_ONLY,
                              VX_MEMORY_TYPE_HOST));
    CALL(vxReleaseUserDataObject(&object));
    printf("%s: version %u of %.60s\n", item->core, (unsigned)identity.version, identity.sources);
}

static void print_times(struct item *item)
{
    vx_perf_t node, graph;
    CALL(vxQueryNode(item->nodes[1], VX_NODE_PERFORMANCE, &node, sizeof node));
    CALL(vxQueryGraph(item->graph, VX_GRAPH_PERFORMANCE, &graph, sizeof graph - does("attribute-size")));
    for (const vx_perf_t *perf = &node; perf; perf = perf == &node ? &graph : NULL)
        printf("%s: %s %llu %llu %llu %llu %llu\n", item->core, perf == &node ? "node" : "graph",
               (unsigned long long)perf->num, (unsigned long long)perf->sum, (unsigned long long)perf->avg,
               (unsigned long long)perf->min, (unsigned long long)perf->max);
}

static void release(struct item *item)
{
    vx_tensor again = item->tensors[0];
    for (int i = 0; i < NODES; ++i) {
        if (!does("leave-nodes"))
            CALL(vxReleaseNode(&item->nodes[i]));
        CALL(vxReleaseUserDataObject(&item->constants[i]));
    }
    CALL(vxReleaseScalar(&item->vectors));
    for (int i = does("leak-tensor"); i < TENSORS; ++i)
        CALL(vxReleaseTensor(&item->tensors[i]));
    if (does("release-held-twice"))
        CALL(vxReleaseTensor(&again));
    CALL(vxReleaseTensor(&item->sums));
    if (!does("leak-graph"))
        CALL(vxReleaseGraph(&item->graph));
    if (does("release-twice"))
        CALL(vxReleaseTensor(&again));
    if (does("used-too-late"))
        copy(again, 1, 4, item, VX_READ_ONLY);
    if (does("release-node-too-late"))
        CALL(vxReleaseNode(&item->nodes[0]));
}

static void *compute(void *argument)
{
    struct item *item = argument;
    create_objects(item);
    create_graph(item);
    run(item);
    if (does("target-removed-early"))
        CALL(harness_kernels_unregister());
    accumulate(item);
    identify(item);
    print_times(item);
    release(item);
    return NULL;
}

static void compute_both(void)
{
    struct item items[2] = {{.core = TIVX_TARGET_DSP_C7_1}, {.core = TIVX_TARGET_MPU_0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i)
        pthread_create(&threads[i], NULL, compute, &items[i]);
    for (int i = 0; i < 2; ++i)
        pthread_join(threads[i], NULL);
}

static void misuse_context(void)
{
    char text[VX_MAX_IMPLEMENTATION_NAME];
    CALL(vxQueryContext(context, VX_CONTEXT_IMPLEMENTATION + does("attribute"), text,
                        sizeof text - does("implementation-size")));
    printf("%s\n", text);
    if (does("second-context"))
        MADE(vxCreateContext());
    if (does("module-twice"))
        CALL(tivxRegisterModule(MODULE, publish, unpublish));
    if (does("module-unknown"))
        CALL(tivxUnRegisterModule("x"));
    if (does("module-early"))
        CALL(tivxUnRegisterModule(MODULE));
    if (does("no-reference"))
        CALL(vxQueryTensor(NULL, VX_TENSOR_DIMS, text, 1));
    if (does("object-empty"))
        MADE(vxCreateUserDataObject(context, "x", 0, NULL));
    if (does("load-twice"))
        CALL(vxLoadKernels(context, MODULE));
    for (int i = 0; i < 257 && does("limit-tensors"); ++i)
        create_tensor(1, VX_TYPE_UINT8);
    for (int i = 0; i < 195 && does("limit-objects"); ++i)
        MADE(vxCreateUserDataObject(context, "x", 1, NULL));
}

static void begin(const char *core)
{
    if (does("early-context"))
        MADE(vxCreateContext());
    check(appInit(), "appInit");
    if (does("init-twice"))
        appInit();
    context = vxCreateContext();
    MADE(context);
    CALL(tivxRegisterModule(MODULE, publish, unpublish));
    CALL(vxLoadKernels(context, MODULE));
    if (strcmp(core, TIVX_TARGET_DSP_C7_1) != 0 && !does("unregistered"))
        CALL(harness_kernels_register(TIVX_TARGET_MPU_0));
    misuse_target_kernels();
    misuse_context();
}

static void end(void)
{
    if (!does("leak-module"))
        CALL(vxUnloadKernels(context, MODULE));
    if (!does("leak-context"))
        CALL(vxReleaseContext(&context));
    if (!does("leak-registration"))
        CALL(tivxUnRegisterModule(MODULE));
    if (!does("leak-target-kernel"))
        CALL(harness_kernels_unregister());
    check(appDeInit(), "appDeInit");
}

int main(int count, char **given)
{
    if (count < 4)
        return 2;
    rows = strtoul(given[2], NULL, 10);
    runs = (unsigned)strtoul(given[3], NULL, 10);
    misuse = count > 4 ? given[4] : "";
    begin(given[1]);
    if (strcmp(given[1], "both") == 0)
        compute_both();
    else
        for (int i = 0; i <= does("again"); ++i)
            compute(&(struct item){.core = given[1]});
    end();
    if (does("end-twice"))
        appDeInit();
    printf("done\n");
    return 0;
}
