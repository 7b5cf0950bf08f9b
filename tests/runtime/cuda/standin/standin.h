/* A stand-in for libcuda.so.1: it answers as a driver with some GPUs would, and records every call.

   It runs no kernel, device memory is host memory, and copies happen at once; unless a process registers what
   executes its work (`execute.c`), kernels and all. Handles are real objects with states, so that a dead
   stream, a foreign context or a wrong moment of a capture is refused as the driver refuses it. Signatures and codes
   are those of the CUDA Driver API reference. */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 8
#define MAX_PARAMETERS 512

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    LAUNCH_FAILED = 719,
    COOPERATIVE_TOO_LARGE = 720,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908
};

typedef enum { FREED = 0, CONTEXT, MODULE, FUNCTION, STREAM, EVENT, GRAPH, EXECUTABLE } Kind;

/* Numbers of CUgraphNodeType. */
typedef enum { KERNEL_NODE = 0, COPY_NODE = 1, FILL_NODE = 2, HOST_NODE = 3, GRAPH_NODE = 4 } NodeType;

typedef struct Node {
    struct Node *next;
    NodeType type;
    void *target;       /* of a copy or a fill */
    const void *source; /* of a copy; of a kernel its function */
    size_t bytes;
    int value;
} Node;

typedef struct Handle {
    Kind kind;
    int device;
    union {
        struct { int references; unsigned peers; } context;
        struct { unsigned char *image; int is_ptx; } module; /* image NULL: made up by a test */
        struct {
            char name[256];
            struct Handle *module;
            int max_threads, static_shared, dynamic_shared, registers;
            int required_threads; /* of a block; 0: any number */
            int parameters; /* -1: unknown */
            uint16_t *sizes, *offsets;
        } function;
        struct {
            unsigned flags;
            int priority;
            int held; /* a test lets its work wait */
            int mode, invalidated; /* of a capture */
            struct Handle *graph; /* being captured; NULL otherwise */
            struct Handle *origin; /* where the capture began: itself, or the stream that it forked from */
        } stream;
        struct {
            unsigned flags;
            int recorded;
            double seconds;
            struct Handle *stream; /* of the last recording, NULL for the default one */
            struct Handle *origin; /* of the capture that it was recorded in */
        } event;
        struct { Node *first, *last; int nodes, kernels; } graph;
    };
} Handle;

/* record.c */
extern int standin_watching;
int standin_record(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
int standin_sticky(int code);
long standin_setting(const char *name, long otherwise);

/* Every function of the driver begins with it: the call is written down, and a fault that a test asked for returned. */
#define CALL(name, ...)                                   \
    do {                                                  \
        if (standin_watching) {                           \
            int fault = standin_record(name, __VA_ARGS__); \
            if (fault) return fault;                      \
        }                                                 \
    } while (0)

/* execute.c */
typedef enum { NONE = 0, ON_HOST = 1, ON_DEVICE = 2, REGISTERED = 3 } Where;

/* What does the work of a process. `stream` is NULL for the default one of `device`. Each returns CUDA's code. */
typedef struct {
    int (*load)(const Handle *module, int device, const void *image, size_t bytes);
    int (*unload)(const Handle *module);
    int (*describe)(const Handle *module, const Handle *function, const char *name, int *parameters, uint16_t *sizes,
                    uint16_t *offsets, int *threads, int *shared);
    int (*launch)(const Handle *function, const Handle *stream, int device, const unsigned *grid,
                  const unsigned *block, unsigned shared, const void *parameters, size_t bytes);
    int (*copy)(uint64_t target, Where target_is, uint64_t source, Where source_is, size_t bytes,
                const Handle *stream, int device);
    int (*fill)(uint64_t target, int value, size_t bytes, const Handle *stream, int device);
    int (*call_host)(const Handle *stream, int device, void (*call)(void *), void *data);
    int (*allocated)(uint64_t address, size_t bytes, Where where, int device);
    int (*freed)(uint64_t address, Where where, int device);
    int (*new_stream)(const Handle *stream, int device, unsigned flags, int priority);
    int (*drop_stream)(const Handle *stream);
    int (*synchronise)(const Handle *stream, int device);
    int (*query)(const Handle *stream, int device);
    int (*synchronise_device)(int device);
    int (*hold)(const Handle *stream, int on);
    int (*new_event)(const Handle *event, int device, int timing);
    int (*drop_event)(const Handle *event);
    int (*record)(const Handle *event, const Handle *stream, int device);
    int (*wait)(const Handle *stream, int device, const Handle *event);
    int (*ask_event)(const Handle *event, int wait);
    int (*elapsed)(const Handle *start, const Handle *end, float *milliseconds);
    int (*begin_capture)(const Handle *stream, int device, int mode);
    int (*end_capture)(const Handle *stream, int device, const Handle *graph);
    int (*instantiate)(const Handle *executable, const Handle *graph);
    int (*launch_graph)(const Handle *executable, const Handle *stream, int device);
    int (*drop_graph)(const Handle *graph);
    int (*encode_map)(void *map, int type, unsigned rank, uint64_t address, const uint64_t *sizes,
                      const uint64_t *pitches, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle,
                      int fill);
} Executor;

extern const Executor *executor; /* NULL: work is recorded, not done */
int execute_callback(Handle *stream, Handle *given, void (*call)(Handle *, int, void *), void *data);

/* context.c */
extern __thread Handle *current_context;
extern pthread_mutex_t standin_lock;
Handle *new_handle(Kind kind, int device);
int is_live(const void *pointer, Kind kind);
void each_stream(void (*call)(Handle *stream, void *data), void *data);
int current_device(void);
int device_count(void);

/* memory.c */
int is_device_memory(uint64_t address, size_t bytes);

/* stream.c */
int stream_of(Handle *stream, Handle **found);
int is_default(const Handle *stream);
int any_capture(void);
void invalidate_captures(void);
void add_node(Handle *stream, NodeType type, void *target, const void *source, size_t bytes, int value);

#endif
