/* ONNX Runtime exports one symbol, OrtGetApiBase; everything else is reached through a table of function pointers.
 *
 * Entries are only ever appended to that table, so that an index keeps its meaning in all later versions.  Only the
 * entries that are called here are declared, each with its index; the others are left out by the gaps.
 */
#include "onnxruntime.h"

#include <dlfcn.h>
#include <stdint.h>

#include "fail.h"

struct OrtStatus; /* NULL where a call succeeded */
struct OrtEnv;
struct OrtMemoryInfo;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtValue;

enum { LOGGING_LEVEL_FATAL = 4, DEVICE_ALLOCATOR = 0, MEM_TYPE_DEFAULT = 0, ELEMENT_TYPE_FLOAT = 1, API_VERSION = 1 };

typedef struct OrtStatus *status;

struct api {
    void *gap_0[2];
    const char *(*GetErrorMessage)(const struct OrtStatus *);
    status (*CreateEnv)(int logging_level, const char *log_id, struct OrtEnv **env);
    void *gap_4[3];
    status (*CreateSession)(const struct OrtEnv *env, const char *path, const struct OrtSessionOptions *options,
                            struct OrtSession **session);
    void *gap_8[1];
    status (*Run)(struct OrtSession *session, const struct OrtRunOptions *options, const char *const *input_names,
                  const struct OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                  size_t output_count, struct OrtValue **outputs);
    status (*CreateSessionOptions)(struct OrtSessionOptions **options);
    void *gap_11[8];
    status (*DisableCpuMemArena)(struct OrtSessionOptions *options);
    void *gap_20[4];
    status (*SetIntraOpNumThreads)(struct OrtSessionOptions *options, int threads);
    void *gap_25[24];
    status (*CreateTensorWithDataAsOrtValue)(const struct OrtMemoryInfo *info, void *data, size_t bytes,
                                             const int64_t *shape, size_t rank, int element_type,
                                             struct OrtValue **value);
    void *gap_50[19];
    status (*CreateCpuMemoryInfo)(int allocator_type, int mem_type, struct OrtMemoryInfo **info);
};

#define ASSERT_INDEX(ENTRY, INDEX) _Static_assert(offsetof(struct api, ENTRY) == (INDEX) * sizeof(void *), #ENTRY)
ASSERT_INDEX(GetErrorMessage, 2);
ASSERT_INDEX(CreateEnv, 3);
ASSERT_INDEX(CreateSession, 7);
ASSERT_INDEX(Run, 9);
ASSERT_INDEX(CreateSessionOptions, 10);
ASSERT_INDEX(DisableCpuMemArena, 19);
ASSERT_INDEX(SetIntraOpNumThreads, 24);
ASSERT_INDEX(CreateTensorWithDataAsOrtValue, 49);
ASSERT_INDEX(CreateCpuMemoryInfo, 69);

struct api_base {
    const struct api *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

static const struct api *api;
static struct OrtSession *session;
static const char *input_name, *output_name;
static struct OrtValue *input_tensor, *output_tensor;

static void require(status failure)
{
    if (failure)
        fail(EXIT_SYSTEM, "ONNX Runtime: %s", api->GetErrorMessage(failure));
}

static const struct api *load_api(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        fail(EXIT_IO, "%s", dlerror());
    const struct api_base *(*get_base)(void);
    *(void **)&get_base = dlsym(handle, "OrtGetApiBase");
    const struct api *table = get_base ? get_base()->GetApi(API_VERSION) : NULL;
    if (!table)
        fail(EXIT_SYSTEM, "%s: offers no C API of version %d", library, API_VERSION);
    return table;
}

static struct OrtSession *create_session(const char *path)
{
    struct OrtEnv *env;
    struct OrtSessionOptions *options;
    struct OrtSession *created;
    require(api->CreateEnv(LOGGING_LEVEL_FATAL, "benchmark", &env));
    require(api->CreateSessionOptions(&options));
    require(api->SetIntraOpNumThreads(options, 1));
#if !defined(WITH_ARENA)
    require(api->DisableCpuMemArena(options)); /* small networks are a few per cent faster without */
#endif
    require(api->CreateSession(env, path, options, &created));
    return created;
}

static struct OrtValue *create_tensor(float *data, size_t width)
{
    const int64_t shape[] = {1, (int64_t)width};
    struct OrtMemoryInfo *info;
    struct OrtValue *tensor;
    require(api->CreateCpuMemoryInfo(DEVICE_ALLOCATOR, MEM_TYPE_DEFAULT, &info));
    require(api->CreateTensorWithDataAsOrtValue(info, data, width * sizeof *data, shape, 2, ELEMENT_TYPE_FLOAT,
                                                &tensor));
    return tensor;
}

void runtime_open(const struct runtime_model *model, float *input, float *output)
{
    api = load_api(model->library);
    session = create_session(model->path);
    input_name = model->input_name;
    output_name = model->output_name;
    input_tensor = create_tensor(input, model->input_width);
    output_tensor = create_tensor(output, model->output_width);
}

void runtime_run(void)
{
    const struct OrtValue *const inputs[] = {input_tensor};
    require(api->Run(session, NULL, &input_name, inputs, 1, &output_name, 1, &output_tensor));
}
