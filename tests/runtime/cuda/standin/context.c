/* Versions, devices and their primary contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define MAX_HANDLES (1 << 18)
#define SM_90_SHARED_OPTIN 232448

__thread Handle *current_context;
pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;

static Handle handles[MAX_HANDLES];
static int handle_count;
static Handle *primary[MAX_DEVICES];
static int initialised;

/* Handles are never given out twice, so that a dead one is known for what it is. */
Handle *new_handle(Kind kind, int device) {
    int i = __sync_fetch_and_add(&handle_count, 1);
    if (i >= MAX_HANDLES) {
        fprintf(stderr, "standin: more than %d handles\n", MAX_HANDLES);
        abort();
    }
    handles[i].kind = kind;
    handles[i].device = device;
    return &handles[i];
}

int is_live(const void *pointer, Kind kind) {
    const Handle *handle = pointer;
    return handle >= handles && handle < handles + handle_count &&
           ((const char *)handle - (const char *)handles) % sizeof(Handle) == 0 && handle->kind == kind;
}

void each_stream(void (*call)(Handle *stream, void *data), void *data) {
    for (int i = 0; i < handle_count; i++)
        if (handles[i].kind == STREAM) call(&handles[i], data);
}

int device_count(void) { return (int)standin_setting("DEVICES", 1); }

int current_device(void) { return current_context ? current_context->device : -1; }

static int check_device(int device) {
    if (!initialised) return NOT_INITIALIZED;
    return device >= 0 && device < device_count() ? SUCCESS : INVALID_DEVICE;
}

EXPORT int cuInit(unsigned flags) {
    CALL("cuInit", "flags=%u", flags);
    if (device_count() == 0) return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version) {
    CALL("cuDriverGetVersion", "%s", "");
    *version = (int)standin_setting("DRIVER", 13020);
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count) {
    CALL("cuDeviceGetCount", "%s", "");
    if (!initialised) return NOT_INITIALIZED;
    *count = device_count();
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    CALL("cuDeviceGet", "ordinal=%d", ordinal);
    *device = ordinal;
    return check_device(ordinal);
}

EXPORT int cuDeviceGetName(char *name, int length, int device) {
    CALL("cuDeviceGetName", "of=%d", device);
    snprintf(name, length, executor ? "CUDA stand-in" : "NVIDIA H200");
    return check_device(device);
}

EXPORT int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    CALL("cuDeviceGetUuid", "of=%d", device);
    memset(uuid, 0xA0 + device, 16);
    return check_device(device);
}

EXPORT int cuDeviceGetLuid(char *luid, unsigned *mask, int device) {
    CALL("cuDeviceGetLuid", "of=%d", device);
    memset(luid, 0, 8);
    *mask = 0;
    return check_device(device);
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    CALL("cuDeviceTotalMem", "of=%d", device);
    *bytes = (size_t)standin_setting("MEMORY", 150754820096);
    return check_device(device);
}

EXPORT int cuDeviceGetPCIBusId(char *text, int length, int device) {
    CALL("cuDeviceGetPCIBusId", "of=%d", device);
    snprintf(text, length, "0000:%02x:00.0", device + 1);
    return check_device(device);
}

/* Attributes by their number in CUdevice_attribute; what is missing here is 0. */
static const struct { int number, value; } ATTRIBUTES[] = {
    {1, 1024},       /* threads of a block */
    {2, 1024},       {3, 1024},      {4, 64},        {5, 2147483647}, {6, 65535},      {7, 65535},
    {8, 49152},      /* shared memory of a block */
    {9, 65536},      /* constant memory */
    {10, 32},        /* warp */
    {11, 2147483647}, {12, 65536}, /* registers of a block */
    {13, 1980000},   {14, 512},      {15, 1},
    {16, 132},       /* multiprocessors */
    {19, 1},         {30, 0},        {31, 1},        {32, 1},         {36, 3201000},   {37, 6144},
    {38, 62914560},  /* L2 cache */
    {39, 2048},      /* threads of a multiprocessor */
    {40, 3},         {41, 1},
    {78, 1},         /* stream priorities */
    {79, 1},         {80, 1},
    {81, 233472},    /* shared memory of a multiprocessor */
    {82, 65536},     {83, 1},        {88, 1},        {89, 1},         {90, 1},         {95, 1},
    {97, SM_90_SHARED_OPTIN},
    {98, 1},         {99, 1},        {106, 32},      {111, 1024},     {115, 1},
};

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL("cuDeviceGetAttribute", "attribute=%d of=%d", attribute, device);
    *value = 0;
    for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++)
        if (ATTRIBUTES[i].number == attribute) *value = ATTRIBUTES[i].value;
    if (attribute == 33) *value = device + 1; /* PCI bus */
    if (attribute == 75) *value = (int)standin_setting("CAPABILITY", 90) / 10;
    if (attribute == 76) *value = (int)standin_setting("CAPABILITY", 90) % 10;
    if (attribute == 16) *value = (int)standin_setting("MULTIPROCESSORS", *value);
    if (attribute == 97) *value = (int)standin_setting("SHARED", SM_90_SHARED_OPTIN);
    return check_device(device);
}

EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    CALL("cuDeviceCanAccessPeer", "of=%d peer=%d", device, peer);
    *can = device != peer;
    int wrong = check_device(device);
    return wrong ? wrong : check_device(peer);
}

EXPORT int cuDeviceGetP2PAttribute(int *value, int attribute, int device, int peer) {
    CALL("cuDeviceGetP2PAttribute", "attribute=%d of=%d peer=%d", attribute, device, peer);
    *value = device != peer;
    return SUCCESS;
}

static int primary_of(int device, Handle **context) {
    int wrong = check_device(device);
    if (wrong) return wrong;
    pthread_mutex_lock(&standin_lock);
    if (!primary[device]) primary[device] = new_handle(CONTEXT, device);
    *context = primary[device];
    pthread_mutex_unlock(&standin_lock);
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(Handle **context, int device) {
    CALL("cuDevicePrimaryCtxRetain", "of=%d", device);
    int wrong = primary_of(device, context);
    if (!wrong) __sync_fetch_and_add(&(*context)->context.references, 1);
    return wrong;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    CALL("cuDevicePrimaryCtxRelease", "of=%d", device);
    if (!primary[device] || primary[device]->context.references == 0) return INVALID_CONTEXT;
    primary[device]->context.references--;
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    CALL("cuDevicePrimaryCtxGetState", "of=%d", device);
    int wrong = check_device(device);
    if (wrong) return wrong;
    *flags = 0;
    *active = primary[device] && primary[device]->context.references > 0;
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
    CALL("cuDevicePrimaryCtxSetFlags", "of=%d flags=%u", device, flags);
    return check_device(device);
}

EXPORT int cuCtxGetCurrent(Handle **context) {
    CALL("cuCtxGetCurrent", "%s", "");
    *context = current_context;
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(Handle *context) {
    CALL("cuCtxSetCurrent", "to=%d", context ? context->device : -1);
    if (context && !is_live(context, CONTEXT)) return INVALID_CONTEXT;
    current_context = context;
    return SUCCESS;
}

static __thread Handle *stack[64];
static __thread int depth;

EXPORT int cuCtxPushCurrent_v2(Handle *context) {
    CALL("cuCtxPushCurrent", "to=%d", context ? context->device : -1);
    if (!is_live(context, CONTEXT) || depth == 64) return INVALID_CONTEXT;
    stack[depth++] = current_context;
    current_context = context;
    return SUCCESS;
}

EXPORT int cuCtxPopCurrent_v2(Handle **context) {
    CALL("cuCtxPopCurrent", "%s", "");
    if (!depth) return INVALID_CONTEXT;
    if (context) *context = current_context;
    current_context = stack[--depth];
    return SUCCESS;
}

EXPORT int cuCtxGetDevice(int *device) {
    CALL("cuCtxGetDevice", "%s", "");
    if (!current_context) return INVALID_CONTEXT;
    *device = current_context->device;
    return SUCCESS;
}

EXPORT int cuCtxGetDevice_v2(int *device, Handle *context) {
    CALL("cuCtxGetDevice", "%s", "");
    if (!context) context = current_context;
    if (!is_live(context, CONTEXT)) return INVALID_CONTEXT;
    *device = context->device;
    return SUCCESS;
}

EXPORT int cuCtxGetId(Handle *context, uint64_t *id) {
    CALL("cuCtxGetId", "%s", "");
    if (!context) context = current_context;
    if (!is_live(context, CONTEXT)) return INVALID_CONTEXT;
    *id = (uint64_t)context->device + 1;
    return SUCCESS;
}

EXPORT int cuCtxGetFlags(unsigned *flags) {
    CALL("cuCtxGetFlags", "%s", "");
    *flags = 0;
    return SUCCESS;
}

EXPORT int cuCtxGetApiVersion(Handle *context, unsigned *version) {
    CALL("cuCtxGetApiVersion", "context=%p", (void *)context);
    *version = 3020;
    return SUCCESS;
}

static int synchronise_context(void) {
    if (!current_context) return INVALID_CONTEXT;
    if (any_capture()) {
        invalidate_captures();
        return CAPTURE_UNSUPPORTED;
    }
    return executor ? executor->synchronise_device(current_context->device) : SUCCESS;
}

EXPORT int cuCtxSynchronize(void) {
    CALL("cuCtxSynchronize", "%s", "");
    return synchronise_context();
}

EXPORT int cuCtxSynchronize_v2(Handle *context) {
    CALL("cuCtxSynchronize", "context=%p", (void *)context);
    return synchronise_context();
}

EXPORT int cuCtxGetLimit(size_t *value, int limit) {
    CALL("cuCtxGetLimit", "limit=%d", limit);
    *value = 1024;
    return SUCCESS;
}

EXPORT int cuCtxSetLimit(int limit, size_t value) {
    CALL("cuCtxSetLimit", "limit=%d value=%zu", limit, value);
    return SUCCESS;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    CALL("cuCtxGetStreamPriorityRange", "%s", "");
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return SUCCESS;
}

EXPORT int cuCtxEnablePeerAccess(Handle *peer, unsigned flags) {
    CALL("cuCtxEnablePeerAccess", "peer=%d flags=%u", peer ? peer->device : -1, flags);
    if (!current_context || !is_live(peer, CONTEXT)) return INVALID_CONTEXT;
    unsigned bit = 1u << peer->device;
    if (current_context->context.peers & bit) return PEER_ACCESS_ALREADY_ENABLED;
    current_context->context.peers |= bit;
    return SUCCESS;
}

EXPORT int cuCtxDisablePeerAccess(Handle *peer) {
    CALL("cuCtxDisablePeerAccess", "peer=%d", peer ? peer->device : -1);
    if (!current_context || !is_live(peer, CONTEXT)) return INVALID_CONTEXT;
    current_context->context.peers &= ~(1u << peer->device);
    return SUCCESS;
}
