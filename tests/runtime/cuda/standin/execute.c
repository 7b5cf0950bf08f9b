/* Execution: a process that registers functions here has its work done by them, instead of merely recorded.

   They are Python's (`execution.py`): they queue what streams are given, and run it when something waits. No lock of
   this library is held while one is called, since it may wait for Python's. */
#include <stdlib.h>

#include "standin.h"

const Executor *executor;

EXPORT void standin_execute(const Executor *given) { executor = given; }

/* The context is lost, as after a kernel that touched foreign memory. */
EXPORT int standin_lose(int code) { return standin_sticky(code); }

typedef struct { void (*call)(Handle *, int, void *); Handle *stream; void *data; } Callback;

static void call_back(void *data) {
    Callback callback = *(Callback *)data;
    free(data);
    callback.call(callback.stream, SUCCESS, callback.data);
}

/* A function with the three arguments of a stream's callback, when the stream comes to it. */
int execute_callback(Handle *stream, Handle *given, void (*call)(Handle *, int, void *), void *data) {
    Callback *callback = malloc(sizeof *callback);
    *callback = (Callback){call, given, data};
    return executor->call_host(stream, current_device(), call_back, callback);
}
