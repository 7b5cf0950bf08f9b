/* Captures and graphs: what a stream would have done is kept, and done when the graph is launched.

   Copies and fills are replayed; kernels are counted only, unless the process executes them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define MAX_CAPTURES 64
#define GLOBAL 0
#define RELAXED 2
#define NON_BLOCKING 1u

static struct { Handle *stream; pthread_t thread; } captures[MAX_CAPTURES];
static int capture_count;
static __thread int thread_mode = GLOBAL;

/* Whether calls that may wait or allocate are refused in this thread now, by the rules of
   cuThreadExchangeStreamCaptureMode. */
int any_capture(void) {
    if (!capture_count || thread_mode == RELAXED) return 0;
    int found = 0;
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < capture_count; i++) {
        int mode = captures[i].stream->stream.mode;
        int own = pthread_equal(captures[i].thread, pthread_self());
        found |= mode != RELAXED && (own || (mode == GLOBAL && thread_mode == GLOBAL));
    }
    pthread_mutex_unlock(&standin_lock);
    return found;
}

/* Whether a stream that waits for the default one is being captured. */
int blocking_captures(void) {
    int found = 0;
    for (int i = 0; i < capture_count; i++) found |= !(captures[i].stream->stream.flags & NON_BLOCKING);
    return found;
}

void invalidate_captures(void) {
    for (int i = 0; i < capture_count; i++) captures[i].stream->stream.invalidated = 1;
}

void add_node(Handle *stream, NodeType type, void *target, const void *source, size_t bytes, int value) {
    Node *node = calloc(1, sizeof *node);
    *node = (Node){NULL, type, target, source, bytes, value};
    Handle *graph = stream->stream.graph;
    if (graph->graph.last) graph->graph.last->next = node;
    else graph->graph.first = node;
    graph->graph.last = node;
    graph->graph.nodes++;
    graph->graph.kernels += type == KERNEL_NODE;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
    CALL("cuThreadExchangeStreamCaptureMode", "mode=%d", *mode);
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return SUCCESS;
}

EXPORT int cuStreamBeginCapture_v2(Handle *stream, int mode) {
    CALL("cuStreamBeginCapture", "stream=%p mode=%d", (void *)stream, mode);
    if (is_default(stream)) return CAPTURE_UNSUPPORTED;
    int wrong = stream_of(stream, &stream);
    if (wrong) return wrong;
    if (stream->stream.graph || capture_count == MAX_CAPTURES) return INVALID_VALUE;
    stream->stream.graph = new_handle(GRAPH, stream->device);
    stream->stream.origin = stream;
    stream->stream.mode = mode;
    pthread_mutex_lock(&standin_lock);
    captures[capture_count].stream = stream;
    captures[capture_count++].thread = pthread_self();
    pthread_mutex_unlock(&standin_lock);
    return executor ? executor->begin_capture(stream, stream->device, mode) : SUCCESS;
}

/* A stream that had joined a capture is its own again when that ends. */
static void leave(Handle *stream, void *origin) {
    if (stream->stream.origin == origin) stream->stream.graph = stream->stream.origin = NULL;
}

EXPORT int cuStreamEndCapture(Handle *stream, Handle **graph) {
    CALL("cuStreamEndCapture", "stream=%p", (void *)stream);
    *graph = NULL;
    if (!is_live(stream, STREAM) || !stream->stream.graph) return INVALID_VALUE;
    if (stream->stream.origin != stream) {
        stream->stream.origin->stream.invalidated = 1;
        return CAPTURE_UNMATCHED;
    }
    for (int i = 0; i < capture_count; i++)
        if (captures[i].stream == stream && stream->stream.mode != RELAXED &&
            !pthread_equal(captures[i].thread, pthread_self()))
            return CAPTURE_WRONG_THREAD;
    int invalidated = stream->stream.invalidated;
    Handle *made = stream->stream.graph;
    each_stream(leave, stream);
    stream->stream.invalidated = 0;
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < capture_count; i++)
        if (captures[i].stream == stream) captures[i--] = captures[--capture_count];
    pthread_mutex_unlock(&standin_lock);
    int wrong = executor ? executor->end_capture(stream, stream->device, made) : SUCCESS;
    if (invalidated) return CAPTURE_INVALIDATED;
    if (!wrong) *graph = made;
    return wrong;
}

static int status_of(const Handle *stream) {
    if (!stream || !stream->stream.graph) return 0;
    return stream->stream.invalidated || stream->stream.origin->stream.invalidated ? 2 : 1;
}

EXPORT int cuStreamIsCapturing(Handle *stream, int *status) {
    CALL("cuStreamIsCapturing", "stream=%p", (void *)stream);
    if (!is_default(stream) && !is_live(stream, STREAM)) return INVALID_HANDLE;
    *status = is_default(stream) ? 0 : status_of(stream);
    return SUCCESS;
}

EXPORT int cuStreamGetCaptureInfo_v2(Handle *stream, int *status, uint64_t *id, Handle **graph,
                                     const void **dependencies, size_t *count) {
    CALL("cuStreamGetCaptureInfo", "stream=%p", (void *)stream);
    if (!is_default(stream) && !is_live(stream, STREAM)) return INVALID_HANDLE;
    *status = is_default(stream) ? 0 : status_of(stream);
    if (*status == 0) return SUCCESS;
    if (id) *id = (uint64_t)stream->stream.graph;
    if (graph) *graph = stream->stream.graph;
    if (dependencies) *dependencies = NULL;
    if (count) *count = 0;
    return SUCCESS;
}

EXPORT int cuStreamGetCaptureInfo_v3(Handle *stream, int *status, uint64_t *id, Handle **graph,
                                     const void **dependencies, const void **edges, size_t *count) {
    if (edges) *edges = NULL;
    return cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}

static int instantiate(Handle **executable, Handle *graph) {
    if (!is_live(graph, GRAPH)) return INVALID_VALUE;
    *executable = new_handle(EXECUTABLE, graph->device);
    (*executable)->graph = graph->graph;
    return executor ? executor->instantiate(*executable, graph) : SUCCESS;
}

EXPORT int cuGraphInstantiateWithFlags(Handle **executable, Handle *graph, unsigned long long flags) {
    CALL("cuGraphInstantiate", "graph=%p flags=%llu", (void *)graph, flags);
    return instantiate(executable, graph);
}

EXPORT int cuGraphInstantiate_v2(Handle **executable, Handle *graph, void *node, char *log, size_t bytes) {
    (void)node;
    CALL("cuGraphInstantiate", "graph=%p", (void *)graph);
    if (log && bytes) *log = 0;
    return instantiate(executable, graph);
}

EXPORT int cuGraphGetNodes(Handle *graph, void **nodes, size_t *count) {
    CALL("cuGraphGetNodes", "graph=%p", (void *)graph);
    if (!is_live(graph, GRAPH)) return INVALID_VALUE;
    size_t i = 0;
    for (Node *node = graph->graph.first; nodes && node && i < *count; node = node->next) nodes[i++] = node;
    *count = (size_t)graph->graph.nodes;
    return SUCCESS;
}

EXPORT int cuGraphNodeGetType(const Node *node, int *type) {
    CALL("cuGraphNodeGetType", "node=%p", (const void *)node);
    if (!node) return INVALID_VALUE;
    *type = node->type;
    return SUCCESS;
}

EXPORT int cuGraphDebugDotPrint(Handle *graph, const char *path, unsigned flags) {
    static const char *const types[] = {"kernel", "memcpy", "memset", "host", "graph"};
    CALL("cuGraphDebugDotPrint", "graph=%p path=%s flags=%u", (void *)graph, path, flags);
    if (!is_live(graph, GRAPH)) return INVALID_VALUE;
    FILE *file = fopen(path, "w");
    if (!file) return INVALID_VALUE;
    fprintf(file, "digraph dot {\n");
    int i = 0;
    for (Node *node = graph->graph.first; node; node = node->next)
        fprintf(file, "  node%d [label=\"%s %s\"];\n", i++, types[node->type],
                node->type == KERNEL_NODE ? ((const Handle *)node->source)->function.name : "");
    fprintf(file, "}\n");
    return fclose(file) ? INVALID_VALUE : SUCCESS;
}

EXPORT int cuGraphUpload(Handle *executable, Handle *stream) {
    CALL("cuGraphUpload", "graph=%p stream=%p", (void *)executable, (void *)stream);
    return is_live(executable, EXECUTABLE) ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuGraphLaunch(Handle *executable, Handle *stream) {
    CALL("cuGraphLaunch", "graph=%p stream=%p nodes=%d kernels=%d", (void *)executable, (void *)stream,
         is_live(executable, EXECUTABLE) ? executable->graph.nodes : -1,
         is_live(executable, EXECUTABLE) ? executable->graph.kernels : -1);
    int wrong = stream_of(stream, &stream);
    if (wrong) return wrong;
    if (!is_live(executable, EXECUTABLE)) return INVALID_VALUE;
    if (stream && stream->stream.graph) add_node(stream, GRAPH_NODE, NULL, NULL, 0, 0);
    if (executor) return executor->launch_graph(executable, stream, current_context->device);
    for (Node *node = executable->graph.first; node; node = node->next) {
        if (node->type != COPY_NODE && node->type != FILL_NODE) continue;
        if (node->source) memmove(node->target, node->source, node->bytes);
        else memset(node->target, node->value, node->bytes);
    }
    return SUCCESS;
}

EXPORT int cuGraphExecDestroy(Handle *executable) {
    CALL("cuGraphExecDestroy", "graph=%p", (void *)executable);
    if (!is_live(executable, EXECUTABLE)) return INVALID_VALUE;
    executable->kind = FREED;
    return executor ? executor->drop_graph(executable) : SUCCESS;
}

EXPORT int cuGraphDestroy(Handle *graph) {
    CALL("cuGraphDestroy", "graph=%p", (void *)graph);
    if (!is_live(graph, GRAPH)) return INVALID_VALUE;
    graph->kind = FREED;
    return executor ? executor->drop_graph(graph) : SUCCESS;
}
