/* Streams and events. Work is done when it is enqueued, unless a test holds the stream back. */
#include <stdlib.h>
#include <time.h>

#include "standin.h"

#define LEGACY ((Handle *)1)
#define PER_THREAD ((Handle *)2)
#define NON_BLOCKING 1u
#define DISABLE_TIMING 2u

int blocking_captures(void); /* capture.c */

int is_default(const Handle *stream) { return !stream || stream == LEGACY || stream == PER_THREAD; }

/* What a handle stands for: NULL for a default stream. Refuses a dead one, and one of another context. */
int stream_of(Handle *stream, Handle **found) {
    if (!current_context) return INVALID_CONTEXT;
    if (is_default(stream)) {
        *found = NULL;
        if (blocking_captures()) {
            invalidate_captures();
            return CAPTURE_IMPLICIT;
        }
        return SUCCESS;
    }
    if (!is_live(stream, STREAM) || stream->device != current_context->device) return INVALID_HANDLE;
    *found = stream;
    return stream->stream.invalidated ? CAPTURE_INVALIDATED : SUCCESS;
}

static int create(Handle **stream, unsigned flags, int priority) {
    if (!current_context) return INVALID_CONTEXT;
    *stream = new_handle(STREAM, current_context->device);
    (*stream)->stream.flags = flags;
    (*stream)->stream.priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    if (!executor) return SUCCESS;
    return executor->new_stream(*stream, (*stream)->device, flags, (*stream)->stream.priority);
}

EXPORT int cuStreamCreate(Handle **stream, unsigned flags) {
    CALL("cuStreamCreate", "flags=%u", flags);
    return create(stream, flags, 0);
}

EXPORT int cuStreamCreateWithPriority(Handle **stream, unsigned flags, int priority) {
    CALL("cuStreamCreateWithPriority", "flags=%u priority=%d", flags, priority);
    return create(stream, flags, priority);
}

EXPORT int cuStreamDestroy_v2(Handle *stream) {
    CALL("cuStreamDestroy", "stream=%p", (void *)stream);
    if (!is_live(stream, STREAM)) return INVALID_HANDLE;
    stream->kind = FREED;
    return executor ? executor->drop_stream(stream) : SUCCESS;
}

EXPORT int cuStreamGetPriority(Handle *stream, int *priority) {
    CALL("cuStreamGetPriority", "stream=%p", (void *)stream);
    int wrong = stream_of(stream, &stream);
    if (!wrong) *priority = stream ? stream->stream.priority : 0;
    return wrong;
}

EXPORT int cuStreamGetFlags(Handle *stream, unsigned *flags) {
    CALL("cuStreamGetFlags", "stream=%p", (void *)stream);
    int wrong = stream_of(stream, &stream);
    if (!wrong) *flags = stream ? stream->stream.flags : 0;
    return wrong;
}

EXPORT int cuStreamGetId(Handle *stream, uint64_t *id) {
    CALL("cuStreamGetId", "stream=%p", (void *)stream);
    *id = (uint64_t)stream;
    return is_default(stream) || is_live(stream, STREAM) ? SUCCESS : INVALID_HANDLE;
}

EXPORT int cuStreamGetDevice(Handle *stream, int *device) {
    CALL("cuStreamGetDevice", "stream=%p", (void *)stream);
    if (!is_default(stream) && !is_live(stream, STREAM)) return INVALID_HANDLE;
    *device = is_default(stream) ? current_device() : stream->device;
    return SUCCESS;
}

EXPORT int cuStreamGetCtx(Handle *stream, Handle **context) {
    CALL("cuStreamGetCtx", "stream=%p", (void *)stream);
    *context = current_context;
    return is_default(stream) || is_live(stream, STREAM) ? SUCCESS : INVALID_HANDLE;
}

EXPORT int cuStreamGetCtx_v2(Handle *stream, Handle **context, void **green) {
    if (green) *green = NULL;
    return cuStreamGetCtx(stream, context);
}

/* Waiting and asking are no work of a graph: a stream that captures becomes invalid. */
static int forbidden_in_capture(Handle *stream) {
    if (!stream || !stream->stream.graph) return SUCCESS;
    invalidate_captures();
    return CAPTURE_UNSUPPORTED;
}

EXPORT int cuStreamSynchronize(Handle *stream) {
    CALL("cuStreamSynchronize", "stream=%p", (void *)stream);
    int wrong = stream_of(stream, &stream);
    if (!wrong) wrong = forbidden_in_capture(stream);
    if (!wrong && executor) return executor->synchronise(stream, current_context->device);
    if (!wrong && stream) stream->stream.held = 0;
    return wrong;
}

EXPORT int cuStreamQuery(Handle *stream) {
    CALL("cuStreamQuery", "stream=%p", (void *)stream);
    int wrong = stream_of(stream, &stream);
    if (!wrong) wrong = forbidden_in_capture(stream);
    if (wrong) return wrong;
    if (executor) return executor->query(stream, current_context->device);
    return stream && stream->stream.held ? NOT_READY : SUCCESS;
}

EXPORT int cuStreamAddCallback(Handle *stream, void (*call)(Handle *, int, void *), void *data, unsigned flags) {
    CALL("cuStreamAddCallback", "stream=%p flags=%u", (void *)stream, flags);
    Handle *found;
    int wrong = stream_of(stream, &found);
    if (!wrong && executor) return execute_callback(found, stream, call, data);
    if (!wrong) call(stream, SUCCESS, data);
    return wrong;
}

EXPORT int cuLaunchHostFunc(Handle *stream, void (*call)(void *), void *data) {
    CALL("cuLaunchHostFunc", "stream=%p", (void *)stream);
    Handle *found;
    int wrong = stream_of(stream, &found);
    if (!wrong && found && found->stream.graph) add_node(found, HOST_NODE, NULL, NULL, 0, 0);
    if (!wrong && executor) return executor->call_host(found, current_context->device, call, data);
    if (!wrong) call(data);
    return wrong;
}

/* Let the work of a stream wait: queries answer "not ready" until it is released or waited for. */
EXPORT int standin_hold(Handle *stream, int on) {
    if (!is_live(stream, STREAM)) return INVALID_HANDLE;
    if (executor) return executor->hold(stream, on);
    stream->stream.held = on;
    return SUCCESS;
}

EXPORT int cuEventCreate(Handle **event, unsigned flags) {
    CALL("cuEventCreate", "flags=%u", flags);
    if (!current_context) return INVALID_CONTEXT;
    *event = new_handle(EVENT, current_context->device);
    (*event)->event.flags = flags;
    return executor ? executor->new_event(*event, (*event)->device, !(flags & DISABLE_TIMING)) : SUCCESS;
}

EXPORT int cuEventDestroy_v2(Handle *event) {
    CALL("cuEventDestroy", "event=%p", (void *)event);
    if (!is_live(event, EVENT)) return INVALID_HANDLE;
    event->kind = FREED;
    return executor ? executor->drop_event(event) : SUCCESS;
}

static int record(Handle *event, Handle *stream) {
    int wrong = stream_of(stream, &stream);
    if (wrong) return wrong;
    if (!is_live(event, EVENT) || event->device != current_context->device) return INVALID_HANDLE;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->event.recorded = 1;
    event->event.seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    event->event.stream = stream;
    event->event.origin = stream && stream->stream.graph ? stream->stream.origin : NULL;
    return executor ? executor->record(event, stream, current_context->device) : SUCCESS;
}

EXPORT int cuEventRecord(Handle *event, Handle *stream) {
    CALL("cuEventRecord", "event=%p stream=%p", (void *)event, (void *)stream);
    return record(event, stream);
}

EXPORT int cuEventRecordWithFlags(Handle *event, Handle *stream, unsigned flags) {
    CALL("cuEventRecord", "event=%p stream=%p flags=%u", (void *)event, (void *)stream, flags);
    return record(event, stream);
}

/* A stream that waits for an event of a capture is captured from there on. */
EXPORT int cuStreamWaitEvent(Handle *stream, Handle *event, unsigned flags) {
    CALL("cuStreamWaitEvent", "stream=%p event=%p flags=%u", (void *)stream, (void *)event, flags);
    int wrong = stream_of(stream, &stream);
    if (wrong) return wrong;
    if (!is_live(event, EVENT)) return INVALID_HANDLE;
    Handle *origin = event->event.origin;
    if (origin && origin->stream.graph && stream && !stream->stream.graph) {
        stream->stream.graph = origin->stream.graph;
        stream->stream.origin = origin;
    }
    if (!executor) return SUCCESS;
    wrong = executor->wait(stream, current_context->device, event);
    /* A wait that a capture forbids is the end of it. */
    if (wrong && stream && stream->stream.origin) stream->stream.origin->stream.invalidated = 1;
    if (wrong && origin && origin->stream.graph) origin->stream.invalidated = 1;
    return wrong;
}

static int ask(Handle *event, int wait) {
    if (!is_live(event, EVENT)) return INVALID_HANDLE;
    if (event->event.origin && event->event.origin->stream.graph) {
        invalidate_captures();
        return CAPTURED_EVENT;
    }
    if (any_capture()) {
        invalidate_captures();
        return CAPTURE_UNSUPPORTED;
    }
    if (executor) return executor->ask_event(event, wait);
    Handle *stream = event->event.stream;
    if (!stream || !stream->stream.held) return SUCCESS;
    if (wait) stream->stream.held = 0;
    return wait ? SUCCESS : NOT_READY;
}

EXPORT int cuEventQuery(Handle *event) {
    CALL("cuEventQuery", "event=%p", (void *)event);
    return ask(event, 0);
}

EXPORT int cuEventSynchronize(Handle *event) {
    CALL("cuEventSynchronize", "event=%p", (void *)event);
    return ask(event, 1);
}

EXPORT int cuEventElapsedTime(float *milliseconds, Handle *start, Handle *end) {
    CALL("cuEventElapsedTime", "start=%p end=%p", (void *)start, (void *)end);
    if (!is_live(start, EVENT) || !is_live(end, EVENT)) return INVALID_HANDLE;
    if (!start->event.recorded || !end->event.recorded) return INVALID_HANDLE;
    if ((start->event.flags | end->event.flags) & DISABLE_TIMING) return INVALID_HANDLE;
    if (executor) return executor->elapsed(start, end, milliseconds);
    int pending = ask(start, 0);
    if (!pending) pending = ask(end, 0);
    *milliseconds = (float)(1e3 * (end->event.seconds - start->event.seconds));
    return pending;
}
