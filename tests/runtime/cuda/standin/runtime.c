/* The part of the runtime API that CuPy calls, over the driver API of this library.

   CuPy's wheel holds NVIDIA's runtime, which serves no driver but NVIDIA's. A test process lays these functions over
   those of the same name (`overlay.c`); they make the driver calls that the CUDA documentation tells of: a
   primary context for each device, made current in a thread by its first call, and one driver call for each call. */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define INSUFFICIENT_DRIVER 35
#define HOST_TO_DEVICE 1
#define DEVICE_TO_HOST 2
#define DEVICE_TO_DEVICE 3

int cuInit(unsigned);
int cuDriverGetVersion(int *);
int cuDeviceGetCount(int *);
int cuDeviceGetName(char *, int, int);
int cuDeviceGetAttribute(int *, int, int);
int cuDeviceTotalMem_v2(size_t *, int);
int cuDeviceGetUuid_v2(unsigned char *, int);
int cuDeviceGetPCIBusId(char *, int, int);
int cuDeviceCanAccessPeer(int *, int, int);
int cuDevicePrimaryCtxRetain(Handle **, int);
int cuCtxSetCurrent(Handle *);
int cuCtxSynchronize(void);
int cuCtxGetLimit(size_t *, int);
int cuCtxSetLimit(int, size_t);
int cuCtxEnablePeerAccess(Handle *, unsigned);
int cuCtxDisablePeerAccess(Handle *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);
int cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *);
int cuPointerGetAttribute(void *, int, uint64_t);
int cuMemcpyAsync(uint64_t, uint64_t, size_t, Handle *);
int cuMemcpyHtoDAsync_v2(uint64_t, const void *, size_t, Handle *);
int cuMemcpyDtoHAsync_v2(void *, uint64_t, size_t, Handle *);
int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t, Handle *);
int cuMemcpyPeerAsync(uint64_t, Handle *, uint64_t, Handle *, size_t, Handle *);
int cuMemsetD8Async(uint64_t, unsigned char, size_t, Handle *);
int cuMemsetD8_v2(uint64_t, unsigned char, size_t);
int cuStreamCreate(Handle **, unsigned);
int cuStreamCreateWithPriority(Handle **, unsigned, int);
int cuStreamDestroy_v2(Handle *);
int cuStreamSynchronize(Handle *);
int cuStreamQuery(Handle *);
int cuStreamGetFlags(Handle *, unsigned *);
int cuStreamGetPriority(Handle *, int *);
int cuStreamWaitEvent(Handle *, Handle *, unsigned);
int cuStreamAddCallback(Handle *, void (*)(Handle *, int, void *), void *, unsigned);
int cuLaunchHostFunc(Handle *, void (*)(void *), void *);
int cuEventCreate(Handle **, unsigned);
int cuEventDestroy_v2(Handle *);
int cuEventRecord(Handle *, Handle *);
int cuEventQuery(Handle *);
int cuEventSynchronize(Handle *);
int cuEventElapsedTime(float *, Handle *, Handle *);
int cuStreamBeginCapture_v2(Handle *, int);
int cuStreamEndCapture(Handle *, Handle **);
int cuStreamIsCapturing(Handle *, int *);
int cuGraphInstantiateWithFlags(Handle **, Handle *, unsigned long long);
int cuGraphLaunch(Handle *, Handle *);
int cuGraphUpload(Handle *, Handle *);
int cuGraphExecDestroy(Handle *);
int cuGraphDestroy(Handle *);
int cuGraphDebugDotPrint(Handle *, const char *, unsigned);

static __thread int last_error;
static Handle *contexts[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int report(int code) {
    if (code) last_error = code;
    return code;
}

/* Once in a process: is there a driver, and is it new enough for this runtime? */
static int initialise(void) {
    static int done;
    if (done) return SUCCESS;
    int version;
    int wrong = cuDriverGetVersion(&version);
    if (!wrong && version / 1000 < standin_setting("RUNTIME", 13000) / 1000) wrong = INSUFFICIENT_DRIVER;
    if (!wrong) wrong = cuInit(0);
    done = !wrong;
    return wrong;
}

static int context_of(int device, Handle **context) {
    int wrong = initialise();
    if (wrong) return wrong;
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (!contexts[device]) wrong = cuDevicePrimaryCtxRetain(&contexts[device], device);
    *context = contexts[device];
    pthread_mutex_unlock(&lock);
    return wrong;
}

static int use(int device) {
    Handle *context;
    int wrong = context_of(device, &context);
    return wrong ? wrong : cuCtxSetCurrent(context);
}

/* A thread that has chosen no device works on device 0. */
#define RUN(call) return report(current_context ? (call) : (last_error = use(0)) ? last_error : (call))

EXPORT int standin_cudaGetLastError(void) {
    int code = last_error;
    last_error = SUCCESS;
    return code;
}

EXPORT int standin_cudaDriverGetVersion(int *version) { return report(cuDriverGetVersion(version)); }

EXPORT int standin_cudaGetDeviceCount(int *count) {
    int wrong = initialise();
    return report(wrong ? wrong : cuDeviceGetCount(count));
}

EXPORT int standin_cudaSetDevice(int device) { return report(use(device)); }

EXPORT int standin_cudaGetDevice(int *device) {
    int wrong = initialise();
    if (!wrong) *device = current_context ? current_context->device : 0;
    return report(wrong);
}

EXPORT int standin_cudaDeviceSynchronize(void) { RUN(cuCtxSynchronize()); }

EXPORT int standin_cudaDeviceGetAttribute(int *value, int attribute, int device) {
    int wrong = initialise();
    return report(wrong ? wrong : cuDeviceGetAttribute(value, attribute, device));
}

EXPORT int standin_cudaDeviceGetPCIBusId(char *text, int length, int device) {
    int wrong = initialise();
    return report(wrong ? wrong : cuDeviceGetPCIBusId(text, length, device));
}

EXPORT int standin_cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    int wrong = initialise();
    return report(wrong ? wrong : cuDeviceCanAccessPeer(can, device, peer));
}

EXPORT int standin_cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    Handle *context;
    int wrong = context_of(peer, &context);
    if (wrong) return report(wrong);
    RUN(cuCtxEnablePeerAccess(context, flags));
}

EXPORT int standin_cudaDeviceDisablePeerAccess(int peer) {
    Handle *context;
    int wrong = context_of(peer, &context);
    if (wrong) return report(wrong);
    RUN(cuCtxDisablePeerAccess(context));
}

EXPORT int standin_cudaDeviceGetLimit(size_t *value, int limit) { RUN(cuCtxGetLimit(value, limit)); }

EXPORT int standin_cudaDeviceSetLimit(int limit, size_t value) { RUN(cuCtxSetLimit(limit, value)); }

/* Where cudaDeviceProp keeps an attribute in CUDA 13 and in CUDA 12, and whether as a size_t. */
static const struct { int offset[2], attribute, is_size; } FIELDS[] = {
    {{296, 296}, 8, 1}, {{304, 304}, 12, 0}, {{308, 308}, 10, 0}, {{312, 312}, 11, 1}, {{320, 320}, 1, 0},
    {{324, 324}, 2, 0}, {{328, 328}, 3, 0}, {{332, 332}, 4, 0}, {{336, 336}, 5, 0}, {{340, 340}, 6, 0},
    {{344, 344}, 7, 0}, {{352, 352}, 9, 1}, {{360, 360}, 75, 0}, {{364, 364}, 76, 0}, {{384, 388}, 16, 0},
    {{388, 396}, 18, 0}, {{392, 400}, 19, 0}, {{560, 576}, 31, 0}, {{568, 584}, 33, 0}, {{584, 600}, 40, 0},
    {{588, 604}, 41, 0}, {{592, 612}, 37, 0}, {{596, 616}, 38, 0}, {{604, 624}, 39, 0}, {{608, 628}, 78, 0},
    {{624, 640}, 81, 1}, {{632, 648}, 82, 0}, {{636, 652}, 83, 0}, {{668, 688}, 95, 0}, {{672, 696}, 97, 1},
    {{688, 712}, 106, 0}, {{696, 720}, 111, 1}, {{720, 744}, 115, 0},
};
static const size_t PROPERTIES_BYTES[] = {1008, 1032};

static int describe(unsigned char *properties, int device, int layout) {
    int wrong = initialise();
    if (wrong) return report(wrong);
    memset(properties, 0, PROPERTIES_BYTES[layout]);
    wrong = cuDeviceGetName((char *)properties, 256, device);
    if (!wrong) wrong = cuDeviceGetUuid_v2(properties + 256, device);
    if (!wrong) wrong = cuDeviceTotalMem_v2((size_t *)(properties + 288), device);
    for (size_t i = 0; !wrong && i < sizeof FIELDS / sizeof *FIELDS; i++) {
        int value, offset = FIELDS[i].offset[layout];
        wrong = cuDeviceGetAttribute(&value, FIELDS[i].attribute, device);
        if (FIELDS[i].is_size) *(size_t *)(properties + offset) = (size_t)value;
        else *(int *)(properties + offset) = value;
    }
    return report(wrong);
}

EXPORT int standin_cudaGetDeviceProperties(unsigned char *properties, int device) {
    return describe(properties, device, 0);
}

/* CUDA 12's name for it. */
EXPORT int standin_cudaGetDeviceProperties_v2(unsigned char *properties, int device) {
    return describe(properties, device, 1);
}

EXPORT int standin_cudaMalloc(uint64_t *address, size_t bytes) {
    *address = 0;
    if (!bytes) RUN(SUCCESS);
    RUN(cuMemAlloc_v2(address, bytes));
}

EXPORT int standin_cudaFree(uint64_t address) { RUN(cuMemFree_v2(address)); }

EXPORT int standin_cudaMemGetInfo(size_t *unused, size_t *total) { RUN(cuMemGetInfo_v2(unused, total)); }

EXPORT int standin_cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
    *address = NULL;
    if (!bytes) RUN(SUCCESS);
    RUN(cuMemHostAlloc(address, bytes, flags));
}

EXPORT int standin_cudaFreeHost(void *address) { RUN(cuMemFreeHost(address)); }

EXPORT int standin_cudaHostRegister(void *address, size_t bytes, unsigned flags) {
    RUN(cuMemHostRegister_v2(address, bytes, flags));
}

EXPORT int standin_cudaHostUnregister(void *address) { RUN(cuMemHostUnregister(address)); }

typedef struct { int type, device; void *on_device, *on_host; } PointerAttributes;

EXPORT int standin_cudaPointerGetAttributes(PointerAttributes *found, uint64_t address) {
    int wrong = current_context ? SUCCESS : use(0);
    if (wrong) return report(wrong);
    *found = (PointerAttributes){0, -1, NULL, (void *)address};
    if (cuPointerGetAttribute(&found->type, 2, address)) return SUCCESS;
    found->on_device = (void *)address;
    if (found->type == 2) found->on_host = NULL;
    return report(cuPointerGetAttribute(&found->device, 9, address));
}

static int copy(void *dst, const void *src, size_t bytes, int kind, Handle *stream) {
    if (!bytes) return SUCCESS;
    switch (kind) {
        case HOST_TO_DEVICE: return cuMemcpyHtoDAsync_v2((uint64_t)dst, src, bytes, stream);
        case DEVICE_TO_HOST: return cuMemcpyDtoHAsync_v2(dst, (uint64_t)src, bytes, stream);
        case DEVICE_TO_DEVICE: return cuMemcpyDtoDAsync_v2((uint64_t)dst, (uint64_t)src, bytes, stream);
        default: return cuMemcpyAsync((uint64_t)dst, (uint64_t)src, bytes, stream);
    }
}

EXPORT int standin_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, Handle *stream) {
    RUN(copy(dst, src, bytes, kind, stream));
}

EXPORT int standin_cudaMemcpy(void *dst, const void *src, size_t bytes, int kind) {
    int wrong = current_context ? SUCCESS : use(0);
    if (!wrong) wrong = copy(dst, src, bytes, kind, NULL);
    return report(wrong ? wrong : cuStreamSynchronize(NULL));
}

EXPORT int standin_cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes, Handle *stream) {
    Handle *target, *source;
    int wrong = context_of(to, &target);
    if (!wrong) wrong = context_of(from, &source);
    if (wrong) return report(wrong);
    RUN(cuMemcpyPeerAsync((uint64_t)dst, target, (uint64_t)src, source, bytes, stream));
}

EXPORT int standin_cudaMemsetAsync(void *dst, int value, size_t bytes, Handle *stream) {
    RUN(bytes ? cuMemsetD8Async((uint64_t)dst, (unsigned char)value, bytes, stream) : SUCCESS);
}

EXPORT int standin_cudaMemset(void *dst, int value, size_t bytes) {
    RUN(bytes ? cuMemsetD8_v2((uint64_t)dst, (unsigned char)value, bytes) : SUCCESS);
}

EXPORT int standin_cudaStreamCreate(Handle **stream) { RUN(cuStreamCreate(stream, 0)); }

EXPORT int standin_cudaStreamCreateWithFlags(Handle **stream, unsigned flags) { RUN(cuStreamCreate(stream, flags)); }

EXPORT int standin_cudaStreamCreateWithPriority(Handle **stream, unsigned flags, int priority) {
    RUN(cuStreamCreateWithPriority(stream, flags, priority));
}

EXPORT int standin_cudaStreamDestroy(Handle *stream) { RUN(cuStreamDestroy_v2(stream)); }

EXPORT int standin_cudaStreamSynchronize(Handle *stream) { RUN(cuStreamSynchronize(stream)); }

EXPORT int standin_cudaStreamQuery(Handle *stream) { RUN(cuStreamQuery(stream)); }

EXPORT int standin_cudaStreamGetFlags(Handle *stream, unsigned *flags) { RUN(cuStreamGetFlags(stream, flags)); }

EXPORT int standin_cudaStreamGetPriority(Handle *stream, int *priority) {
    RUN(cuStreamGetPriority(stream, priority));
}

EXPORT int standin_cudaStreamWaitEvent(Handle *stream, Handle *event, unsigned flags) {
    RUN(cuStreamWaitEvent(stream, event, flags));
}

EXPORT int standin_cudaStreamAddCallback(Handle *stream, void (*call)(Handle *, int, void *), void *data,
                                         unsigned flags) {
    RUN(cuStreamAddCallback(stream, call, data, flags));
}

EXPORT int standin_cudaLaunchHostFunc(Handle *stream, void (*call)(void *), void *data) {
    RUN(cuLaunchHostFunc(stream, call, data));
}

EXPORT int standin_cudaEventCreate(Handle **event) { RUN(cuEventCreate(event, 0)); }

EXPORT int standin_cudaEventCreateWithFlags(Handle **event, unsigned flags) { RUN(cuEventCreate(event, flags)); }

EXPORT int standin_cudaEventDestroy(Handle *event) { RUN(cuEventDestroy_v2(event)); }

EXPORT int standin_cudaEventRecord(Handle *event, Handle *stream) { RUN(cuEventRecord(event, stream)); }

EXPORT int standin_cudaEventQuery(Handle *event) { RUN(cuEventQuery(event)); }

EXPORT int standin_cudaEventSynchronize(Handle *event) { RUN(cuEventSynchronize(event)); }

EXPORT int standin_cudaEventElapsedTime(float *milliseconds, Handle *start, Handle *end) {
    RUN(cuEventElapsedTime(milliseconds, start, end));
}

EXPORT int standin_cudaStreamBeginCapture(Handle *stream, int mode) { RUN(cuStreamBeginCapture_v2(stream, mode)); }

EXPORT int standin_cudaStreamEndCapture(Handle *stream, Handle **graph) { RUN(cuStreamEndCapture(stream, graph)); }

EXPORT int standin_cudaStreamIsCapturing(Handle *stream, int *status) { RUN(cuStreamIsCapturing(stream, status)); }

EXPORT int standin_cudaGraphInstantiate(Handle **executable, Handle *graph, unsigned long long flags) {
    RUN(cuGraphInstantiateWithFlags(executable, graph, flags));
}

EXPORT int standin_cudaGraphLaunch(Handle *executable, Handle *stream) { RUN(cuGraphLaunch(executable, stream)); }

EXPORT int standin_cudaGraphUpload(Handle *executable, Handle *stream) { RUN(cuGraphUpload(executable, stream)); }

EXPORT int standin_cudaGraphExecDestroy(Handle *executable) { RUN(cuGraphExecDestroy(executable)); }

EXPORT int standin_cudaGraphDestroy(Handle *graph) { RUN(cuGraphDestroy(graph)); }

EXPORT int standin_cudaGraphDebugDotPrint(Handle *graph, const char *path, unsigned flags) {
    RUN(cuGraphDebugDotPrint(graph, path, flags));
}
