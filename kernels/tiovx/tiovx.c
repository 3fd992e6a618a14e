#define _GNU_SOURCE
#include "tiovx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utils/app_init/include/app_init.h>

#include "device_times.h"
#include "fail.h"
#include "identity.h"
#include "module.h"
#include "stdout_redirect.h"

/* TIOVX, which all items of the process share. */
static struct {
    struct tiovx_item *items; /* that are open */
    size_t own_users;         /* of the kernels that the program brings itself */
    bool failed;              /* the program ends for another reason: what fails now is not told */
    vx_context context;
} tiovx;

static const struct {
    vx_status status;
    const char *advice;
} advices[] = {
    {VX_ERROR_NO_MEMORY, "use a smaller --block, or end what else uses the shared memory"},
    {VX_ERROR_NO_RESOURCES, "a limit of TIOVX's configuration (tivx_config_j721e.h): give its items fewer layers"},
    {VX_ERROR_INVALID_TYPE, "program and TIOVX do not fit: build with the headers of the SDK that the board runs"},
};

static const char *advice(vx_status status)
{
    for (size_t i = 0; i < sizeof advices / sizeof *advices; ++i)
        if (advices[i].status == status)
            return advices[i].advice;
    return "see what TIOVX has said above, and the cores' log (/opt/vx_app_arm_remote_log.out on the board)";
}

static void check(vx_status status, const char *function, const char *what)
{
    if (status != VX_SUCCESS && !tiovx.failed)
        fail(EXIT_SYSTEM, "%s (%s): status %d of TIOVX: %s", function, what, (int)status, advice(status));
}

/* Calls a function that returns a status; exits with its name if it fails. */
#define CALL(function, what, ...) check(function(__VA_ARGS__), #function, what)

/* An object that was created, once it is known to be one. */
#define CREATED(object, function, what) check(vxGetStatus((vx_reference)(object)), function, what)

/* An object, if it was created. */
#define RELEASE(function, what, object)                                                                \
    do {                                                                                               \
        if (object)                                                                                    \
            CALL(function, what, &(object));                                                           \
    } while (0)

static void release_after_failure(void);

static void start(void)
{
    quiet_begin();
    if (atexit(release_after_failure) != 0)
        fail(EXIT_SYSTEM, "no room for what is to be done at the program's end");
    if (appInit() != 0)
        fail(EXIT_SYSTEM, "TIOVX does not start (appInit): is another program using it, do the cores run "
                          "(/sys/class/remoteproc/*/state), are you root?");
    tiovx.context = vxCreateContext();
    CREATED(tiovx.context, "vxCreateContext", "starting TIOVX");
    CALL(module_load, "making the kernels known", tiovx.context);
}

static void stop(void)
{
    CALL(module_unload, "forgetting the kernels", tiovx.context);
    CALL(vxReleaseContext, "ending TIOVX", &tiovx.context);
    appDeInit();
    quiet_end();
}

static vx_tensor create_tensor(const struct tiovx_array *array, size_t rows)
{
    const vx_size dims[] = {array->width, rows};
    if (array->width * array->element > UINT32_MAX / rows)
        fail(EXIT_SYSTEM, "%s: %zu vectors of %zu bytes are more than a tensor of TIOVX can have, which counts them with 32 "
                          "bits: use a smaller --block", array->name, rows, array->width * array->element);
    vx_tensor tensor = vxCreateTensor(tiovx.context, 2, dims, array->type, 0);
    CREATED(tensor, "vxCreateTensor", array->name);
    return tensor;
}

/* TIOVX allocates an object's memory when it gets its content. */
static vx_user_data_object create_object(const char *type, size_t bytes, const void *content, const char *what)
{
    vx_user_data_object object = vxCreateUserDataObject(tiovx.context, type, bytes, content);
    CREATED(object, "vxCreateUserDataObject", what);
    return object;
}

static void copy_object(vx_user_data_object object, size_t start, size_t bytes, void *values, vx_enum usage,
                        const char *what)
{
    CALL(vxCopyUserDataObject, what, object, start, bytes, values, usage, VX_MEMORY_TYPE_HOST);
}

static void clear_constants(const struct tiovx_node *node)
{
    memset(node->head, 0, sizeof *node->head);
    for (unsigned part = 0; part < PARTS; ++part)
        if (node->parts[part].bytes)
            memset(node->parts[part].values, 0, node->parts[part].bytes);
}

static void copy_constants(const struct tiovx_node *node, vx_enum usage)
{
    copy_object(node->constants, 0, sizeof *node->head, node->head, usage, node->name);
    for (unsigned i = 0; i < PARTS; ++i)
        if (node->parts[i].bytes)
            copy_object(node->constants, part_start(node->head, i), node->parts[i].bytes, node->parts[i].values, usage,
                        node->name);
}

static void reread_constants(const struct tiovx_node *node)
{
    clear_constants(node);
    copy_constants(node, VX_READ_ONLY);
}

/* The constants go where the core finds them, and come back, so that the tables are what is there and nothing else. */
static void create_constants(struct tiovx_node *node)
{
    node->constants = create_object(TYPE_CONSTANTS, part_start(node->head, PARTS), NULL, node->name);
    copy_constants(node, VX_WRITE_ONLY);
    reread_constants(node);
}

void tiovx_fetch_tables(const struct tiovx_item *item)
{
    for (size_t i = 0; i < item->launch_count; ++i)
        for (size_t k = 0; k < item->launches[i]->node_count; ++k)
            reread_constants(&item->launches[i]->nodes[k]);
}

static void create_node(struct tiovx_launch *launch, struct tiovx_node *node)
{
    create_constants(node);
    vx_kernel kernel = vxGetKernelByName(tiovx.context, node->kernel);
    CREATED(kernel, "vxGetKernelByName", node->kernel);
    node->node = vxCreateGenericNode(launch->graph, kernel);
    CREATED(node->node, "vxCreateGenericNode", node->name);
    CALL(vxReleaseKernel, node->kernel, &kernel);
    vx_reference parameters[MOST_PARAMETERS] = {
        [CONSTANTS] = (vx_reference)node->constants,
        [VECTORS] = (vx_reference)launch->vectors,
        [RESULT] = (vx_reference)launch->arrays[node->result].tensor,
    };
    for (unsigned i = 0; i < node->source_count; ++i)
        parameters[source_parameter(i)] = (vx_reference)launch->arrays[node->sources[i]].tensor;
    for (unsigned i = 0; i < parameter_count(node->source_count); ++i)
        CALL(vxSetParameterByIndex, node->name, node->node, i, parameters[i]);
    CALL(vxSetNodeTarget, node->name, node->node, VX_TARGET_STRING, launch->item->watch.core);
}

/* Runs create callbacks on the core. */
static void verify(struct tiovx_launch *launch)
{
    struct watch *watch = &launch->item->watch;
    watch_begin(watch);
    const vx_status status = watch_end(watch, vxVerifyGraph(launch->graph));
    if (status != VX_SUCCESS)
        fail(EXIT_SYSTEM,
             "TIOVX refuses the graph of item %s (vxVerifyGraph: status %d): either %s has no kernels of the harness, "
             "then install them (harness firmware, docs/boards/tda4vm.md), or it is said above what is wrong",
             watch->item, (int)status, watch->core);
}

static void open_launch(struct tiovx_launch *launch, struct tiovx_item *item, const struct options *options)
{
    const vx_uint32 none = 0;
    launch->item = item;
    launch->graph = vxCreateGraph(tiovx.context);
    CREATED(launch->graph, "vxCreateGraph", launch->name);
    launch->vectors = vxCreateScalar(tiovx.context, VX_TYPE_UINT32, &none);
    CREATED(launch->vectors, "vxCreateScalar", launch->name);
    for (size_t i = 0; i < launch->array_count; ++i) {
        launch->arrays[i].tensor = create_tensor(&launch->arrays[i], options->block);
        launch->arrays[i].copied = launch->arrays[i].wanted || options->dump == DUMP_ALL;
    }
    for (size_t i = 0; i < launch->node_count; ++i)
        create_node(launch, &launch->nodes[i]);
    verify(launch);
}

/* The graph goes first: that runs delete callbacks, which may still want the parameters. */
static void close_launch(struct tiovx_launch *launch)
{
    for (size_t i = 0; i < launch->node_count; ++i)
        RELEASE(vxReleaseNode, launch->nodes[i].name, launch->nodes[i].node);
    if (launch->graph) {
        watch_begin(&launch->item->watch);
        check(watch_end(&launch->item->watch, vxReleaseGraph(&launch->graph)), "vxReleaseGraph", launch->name);
    }
    for (size_t i = 0; i < launch->node_count; ++i)
        RELEASE(vxReleaseUserDataObject, launch->nodes[i].name, launch->nodes[i].constants);
    for (size_t i = 0; i < launch->array_count; ++i)
        RELEASE(vxReleaseTensor, launch->arrays[i].name, launch->arrays[i].tensor);
    RELEASE(vxReleaseScalar, launch->name, launch->vectors);
}

static void command(const struct tiovx_launch *launch, const struct tiovx_node *node, enum command asked,
                    vx_reference references[], size_t count)
{
    struct watch *watch = &launch->item->watch;
    watch_begin(watch);
    const vx_status status = tivxNodeSendCommand(node->node, 0, asked, references, (uint32_t)count);
    check(watch_end(watch, status), "tivxNodeSendCommand", node->name);
}

/* Kernels that are not those of the bundle may compute anything. */
static void check_identity(const char *core, const struct identity *found)
{
    static const char advice[] = "build and install the firmware anew: harness firmware";
    const unsigned version = found->version, expected = KERNELS_VERSION;
    if (version != expected)
        fail(EXIT_SYSTEM, "the kernels on %s are %s than this bundle (version %u, expected %u): %s", core,
             version < expected ? "older" : "newer", version, expected, advice);
    if (strncmp(found->sources, KERNELS_SOURCES, sizeof found->sources) != 0)
        fail(EXIT_SYSTEM, "the kernels on %s were made of other sources (%.60s) than this bundle (%s): %s", core,
             found->sources, KERNELS_SOURCES, advice);
}

static void identify_node(const struct tiovx_launch *launch, const struct tiovx_node *node)
{
    struct identity found = {0};
    vx_user_data_object answer = create_object(TYPE_IDENTITY, sizeof found, &found, node->name);
    command(launch, node, COMMAND_IDENTIFY, (vx_reference[]){(vx_reference)answer}, 1);
    copy_object(answer, 0, sizeof found, &found, VX_READ_ONLY, node->name);
    CALL(vxReleaseUserDataObject, node->name, &answer);
    check_identity(launch->item->watch.core, &found);
}

/* Reads the identity of every kernel, because a firmware could have kernels of different builds. */
static void identify(struct tiovx_item *item)
{
    char name[VX_MAX_IMPLEMENTATION_NAME];
    for (size_t i = 0; i < item->launch_count; ++i)
        for (size_t k = 0; k < item->launches[i]->node_count; ++k)
            identify_node(item->launches[i], &item->launches[i]->nodes[k]);
    CALL(vxQueryContext, "TIOVX's name", tiovx.context, VX_CONTEXT_IMPLEMENTATION, name, sizeof name);
    snprintf(item->device, sizeof item->device, "%.60s, %s, kernels %d (%s)", name, item->watch.core, KERNELS_VERSION,
             KERNELS_SOURCES);
}

/* On the core that the program runs on, the kernels are its own; on others the firmware has them. */
static void bring_kernels(const struct tiovx_item *item)
{
    const char *core = item->watch.core;
    if (strcmp(core, TIVX_TARGET_MPU_0) == 0 && tiovx.own_users++ == 0)
        check(tiovx_own_kernels.add(core), "tivxAddTargetKernelByName", core);
}

static void withdraw_kernels(const struct tiovx_item *item)
{
    if (strcmp(item->watch.core, TIVX_TARGET_MPU_0) == 0 && --tiovx.own_users == 0)
        check(tiovx_own_kernels.remove(), "tivxRemoveTargetKernel", item->watch.core);
}

static void add_item(struct tiovx_item *item)
{
    item->next = tiovx.items;
    tiovx.items = item;
    watch_register(&item->watch);
}

static void remove_item(const struct tiovx_item *item)
{
    struct tiovx_item **place = &tiovx.items;
    while (*place != item)
        place = &(*place)->next;
    *place = item->next;
}

void tiovx_open(struct tiovx_item *item, const struct options *options)
{
    if (!tiovx.items)
        start();
    add_item(item);
    bring_kernels(item);
    item->out = options->time == TIME_NONE ? NULL : options->out;
    for (size_t i = 0; i < item->launch_count; ++i)
        open_launch(item->launches[i], item, options);
    identify(item);
}

static void write_performance(const char *kind, const char *name, const vx_perf_t *times)
{
    device_times_write(kind, name, times->num, times->avg, times->min, times->max);
}

static void write_launch_times(const struct tiovx_launch *launch)
{
    vx_perf_t times;
    CALL(vxQueryGraph, launch->name, launch->graph, VX_GRAPH_PERFORMANCE, &times, sizeof times);
    write_performance("graph", launch->name, &times);
    for (size_t i = 0; i < launch->node_count; ++i) {
        CALL(vxQueryNode, launch->nodes[i].name, launch->nodes[i].node, VX_NODE_PERFORMANCE, &times, sizeof times);
        write_performance("node", launch->nodes[i].name, &times);
    }
}

/* Writes the times that the core measured: a node is its kernel alone, a graph includes the transfers between cores. */
static void write_times(const struct tiovx_item *item)
{
    device_times_open(item->out, item->watch.item);
    for (size_t i = 0; i < item->launch_count; ++i)
        write_launch_times(item->launches[i]);
    device_times_close();
}

static void release_ends(struct tiovx_stage *stage)
{
    for (size_t i = 0; i < stage->source_count; ++i)
        RELEASE(vxReleaseTensor, stage->sources[i].name, stage->sources[i].tensor);
    RELEASE(vxReleaseTensor, stage->result.name, stage->result.tensor);
}

static void close_item(struct tiovx_item *item)
{
    for (struct tiovx_stage *stage = item->asked; stage; stage = stage->next)
        release_ends(stage);
    for (size_t i = 0; i < item->launch_count; ++i)
        close_launch(item->launches[i]);
    withdraw_kernels(item);
    remove_item(item);
    if (!tiovx.items)
        stop();
}

void tiovx_release(struct tiovx_item *item)
{
    if (item->out)
        write_times(item);
    close_item(item);
}

/* A core keeps what a program leaves to it, and has room for few: who gives up tidies up, if no core is at work. */
static void release_after_failure(void)
{
    for (const struct tiovx_item *item = tiovx.items; item; item = item->next)
        if (atomic_load(&item->watch.deadline_ns))
            return;
    tiovx.failed = true;
    while (tiovx.items)
        close_item(tiovx.items);
}

/* `row_bytes` lead from row to row of `rows`. */
static void copy_rows(const struct tiovx_array *array, void *rows, size_t row_bytes, size_t vectors, vx_enum usage)
{
    const vx_size start[] = {0, 0}, end[] = {array->width, vectors};
    const vx_size stride[] = {array->element, row_bytes};
    if (vectors)
        CALL(vxCopyTensorPatch, array->name, array->tensor, 2, start, end, stride, rows, usage, VX_MEMORY_TYPE_HOST);
}

static size_t row_bytes(const struct tiovx_array *array)
{
    return array->width * array->element;
}

static void count_vectors(const struct tiovx_launch *launch, size_t vectors)
{
    vx_uint32 count = (vx_uint32)vectors;
    CALL(vxCopyScalar, launch->name, launch->vectors, &count, VX_WRITE_ONLY, VX_MEMORY_TYPE_HOST);
}

void tiovx_put(struct tiovx_launch *launch, size_t array, const void *from, size_t vectors)
{
    const struct tiovx_array *to = &launch->arrays[array];
    copy_rows(to, (void *)from, row_bytes(to), vectors, VX_WRITE_ONLY);
}

void tiovx_get(struct tiovx_launch *launch, size_t array, void *to, size_t vectors)
{
    const struct tiovx_array *from = &launch->arrays[array];
    if (from->copied)
        copy_rows(from, to, row_bytes(from), vectors, VX_READ_ONLY);
}

/* A graph may be processed, and a kernel in it have failed. */
static void check_node(const struct tiovx_node *node)
{
    vx_status status = VX_FAILURE;
    CALL(vxQueryNode, node->name, node->node, VX_NODE_STATUS, &status, sizeof status);
    check(status, "the kernel's process callback", node->name);
}

void tiovx_run(struct tiovx_launch *launch, size_t vectors)
{
    count_vectors(launch, vectors);
    watch_begin(&launch->item->watch);
    check(watch_end(&launch->item->watch, vxProcessGraph(launch->graph)), "vxProcessGraph", launch->name);
    for (size_t i = 0; i < launch->node_count; ++i)
        check_node(&launch->nodes[i]);
}

/* A tensor of no graph has no memory before the host has written to it. */
static void create_end(struct tiovx_array *array, size_t vectors)
{
    void *row = allocate(array->width, array->element);
    array->tensor = create_tensor(array, vectors);
    copy_rows(array, row, row_bytes(array), 1, VX_WRITE_ONLY);
    free(row);
}

/* Only a program that answers a question of the proof has any, and it asks for ever the same number of vectors. */
static void create_ends(struct tiovx_stage *stage, size_t vectors)
{
    struct tiovx_item *item = stage->launch->item;
    if (stage->rows)
        release_ends(stage);
    else {
        stage->next = item->asked;
        item->asked = stage;
    }
    stage->rows = vectors;
    for (size_t i = 0; i < stage->source_count; ++i)
        create_end(&stage->sources[i], vectors);
    create_end(&stage->result, vectors);
}

static void put_sources(struct tiovx_stage *stage, size_t vectors, const uint8_t *inputs)
{
    size_t bytes = 0;
    for (size_t i = 0; i < stage->source_count; ++i)
        bytes += row_bytes(&stage->sources[i]);
    for (size_t i = 0; i < stage->source_count; ++i) {
        copy_rows(&stage->sources[i], (void *)inputs, bytes, vectors, VX_WRITE_ONLY);
        inputs += row_bytes(&stage->sources[i]);
    }
}

void tiovx_apply(struct tiovx_stage *stage, size_t vectors, const void *inputs, void *outputs)
{
    const struct tiovx_node *node = &stage->launch->nodes[stage->node];
    if (vectors == 0)
        return;
    if (vectors > stage->rows)
        create_ends(stage, vectors);
    put_sources(stage, vectors, inputs);
    count_vectors(stage->launch, vectors);
    vx_reference references[MOST_PARAMETERS] = {
        [CONSTANTS] = (vx_reference)node->constants,
        [VECTORS] = (vx_reference)stage->launch->vectors,
        [RESULT] = (vx_reference)stage->result.tensor,
    };
    for (unsigned i = 0; i < stage->source_count; ++i)
        references[source_parameter(i)] = (vx_reference)stage->sources[i].tensor;
    command(stage->launch, node, stage->command, references, parameter_count(stage->source_count));
    copy_rows(&stage->result, outputs, row_bytes(&stage->result), vectors, VX_READ_ONLY);
}

const char *tiovx_device(const struct tiovx_item *item)
{
    return item->device[0] ? item->device : "no core opened";
}
