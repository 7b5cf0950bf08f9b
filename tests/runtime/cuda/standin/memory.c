/* Device memory, which is host memory; pinned memory; copies and fills. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "standin.h"

#define MAX_BLOCKS 65536
#define PAGE 4096

typedef struct { uint64_t address; size_t bytes; int device; Where where; } Block;

static Block blocks[MAX_BLOCKS];
static int block_count;
static size_t in_use[MAX_DEVICES];

static size_t capacity(void) { return (size_t)standin_setting("MEMORY", 150754820096); }

static int reserve(uint64_t *address, size_t bytes, Where where) {
    if (!current_context) return INVALID_CONTEXT;
    if (!bytes) return INVALID_VALUE;
    if (any_capture()) {
        invalidate_captures();
        return CAPTURE_UNSUPPORTED;
    }
    int device = current_context->device, code = SUCCESS;
    pthread_mutex_lock(&standin_lock);
    if (block_count == MAX_BLOCKS || (where == ON_DEVICE && in_use[device] + bytes > capacity())) {
        code = OUT_OF_MEMORY;
    } else {
        void *pages = mmap(NULL, (bytes + PAGE - 1) / PAGE * PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED) {
            code = OUT_OF_MEMORY;
        } else {
            *address = (uint64_t)pages;
            blocks[block_count++] = (Block){*address, bytes, device, where};
            if (where == ON_DEVICE) in_use[device] += bytes;
        }
    }
    pthread_mutex_unlock(&standin_lock);
    if (!code && executor) code = executor->allocated(*address, bytes, where, device);
    return code;
}

static Block block_of(uint64_t address, size_t bytes);

static int give_back(uint64_t address, Where where) {
    int code = INVALID_VALUE;
    Block found = block_of(address, 0);
    if (executor && found.address == address && found.where == where) {
        int wrong = executor->freed(address, where, found.device);
        if (wrong) return wrong;
    }
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < block_count; i++) {
        if (blocks[i].address != address || blocks[i].where != where) continue;
        if (where != REGISTERED) munmap((void *)address, (blocks[i].bytes + PAGE - 1) / PAGE * PAGE);
        if (where == ON_DEVICE) in_use[blocks[i].device] -= blocks[i].bytes;
        blocks[i] = blocks[--block_count];
        code = SUCCESS;
        break;
    }
    pthread_mutex_unlock(&standin_lock);
    return code;
}

/* The block that holds a range, or an address: mappings may lie side by side. */
static Block block_of(uint64_t address, size_t bytes) {
    Block found = {0, 0, -1, NONE};
    if (!bytes) bytes = 1;
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < block_count; i++)
        if (address >= blocks[i].address && address + bytes <= blocks[i].address + blocks[i].bytes)
            found = blocks[i];
    pthread_mutex_unlock(&standin_lock);
    return found;
}

/* Where a range lies; what begins in a block and ends behind it lies nowhere. */
static int locate(uint64_t address, size_t bytes, Where *where) {
    *where = block_of(address, bytes).where;
    return *where != NONE || block_of(address, 0).where == NONE || !bytes;
}

int is_device_memory(uint64_t address, size_t bytes) { return block_of(address, bytes).where == ON_DEVICE; }

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    CALL("cuMemAlloc", "bytes=%zu", bytes);
    return reserve(address, bytes, ON_DEVICE);
}

EXPORT int cuMemFree_v2(uint64_t address) {
    CALL("cuMemFree", "address=%#lx", address);
    if (any_capture()) {
        invalidate_captures();
        return CAPTURE_UNSUPPORTED;
    }
    return address ? give_back(address, ON_DEVICE) : SUCCESS;
}

EXPORT int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    CALL("cuMemGetInfo", "%s", "");
    if (!current_context) return INVALID_CONTEXT;
    *total = capacity();
    *unused = *total - in_use[current_context->device];
    return SUCCESS;
}

EXPORT int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    CALL("cuMemHostAlloc", "bytes=%zu flags=%u", bytes, flags);
    return reserve((uint64_t *)address, bytes, ON_HOST);
}

EXPORT int cuMemFreeHost(void *address) {
    CALL("cuMemFreeHost", "address=%p", address);
    return give_back((uint64_t)address, ON_HOST);
}

/* Memory of the program's own, pinned where it lies. */
EXPORT int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
    CALL("cuMemHostRegister", "address=%p bytes=%zu flags=%u", address, bytes, flags);
    if (!current_context) return INVALID_CONTEXT;
    if (block_of((uint64_t)address, 0).where != NONE) return ALREADY_REGISTERED;
    pthread_mutex_lock(&standin_lock);
    blocks[block_count++] = (Block){(uint64_t)address, bytes, current_context->device, REGISTERED};
    pthread_mutex_unlock(&standin_lock);
    return executor ? executor->allocated((uint64_t)address, bytes, REGISTERED, current_context->device) : SUCCESS;
}

EXPORT int cuMemHostUnregister(void *address) {
    CALL("cuMemHostUnregister", "address=%p", address);
    int wrong = give_back((uint64_t)address, REGISTERED);
    return wrong == INVALID_VALUE ? NOT_REGISTERED : wrong;
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *found, void *address, unsigned flags) {
    CALL("cuMemHostGetDevicePointer", "address=%p flags=%u", address, flags);
    *found = (uint64_t)address;
    return SUCCESS;
}

EXPORT int cuMemHostGetFlags(unsigned *flags, void *address) {
    CALL("cuMemHostGetFlags", "address=%p", address);
    *flags = 0;
    return SUCCESS;
}

/* Attributes by their number in CUpointer_attribute. */
static int attribute_of(void *data, int attribute, uint64_t address) {
    Block block = block_of(address, 0);
    if (block.where == NONE) return INVALID_VALUE;
    switch (attribute) {
        case 2: *(unsigned *)data = block.where == ON_DEVICE ? ON_DEVICE : ON_HOST; return SUCCESS; /* memory type */
        case 3: case 4: *(uint64_t *)data = address; return SUCCESS; /* device, host pointer */
        case 7: *(uint64_t *)data = block.address; return SUCCESS;  /* buffer id */
        case 8: *(unsigned *)data = 0; return SUCCESS;              /* managed */
        case 9: *(int *)data = block.device; return SUCCESS;        /* ordinal */
        case 11: *(uint64_t *)data = block.address; return SUCCESS; /* start of the range */
        case 12: *(size_t *)data = block.bytes; return SUCCESS;
        case 13: *(int *)data = 1; return SUCCESS;                  /* mapped */
        default: *(uint64_t *)data = 0; return SUCCESS;
    }
}

EXPORT int cuPointerGetAttribute(void *data, int attribute, uint64_t address) {
    CALL("cuPointerGetAttribute", "attribute=%d address=%#lx", attribute, address);
    return attribute_of(data, attribute, address);
}

EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **data, uint64_t address) {
    CALL("cuPointerGetAttributes", "count=%u address=%#lx", count, address);
    for (unsigned i = 0; i < count; i++)
        if (attribute_of(data[i], attributes[i], address)) memset(data[i], 0, attributes[i] == 8 ? 4 : 8);
    return SUCCESS;
}

/* Copies and fills happen at once, or wait in the graph of a stream that captures. */
static int transfer(void *target, const void *source, int value, size_t bytes, Handle *stream) {
    int wrong = stream_of(stream, &stream);
    if (wrong) return wrong;
    Where to, from;
    if (!locate((uint64_t)target, bytes, &to) || (source && !locate((uint64_t)source, bytes, &from)))
        return INVALID_VALUE;
    int captured = stream && stream->stream.graph;
    if (captured) add_node(stream, source ? COPY_NODE : FILL_NODE, target, source, bytes, value);
    if (executor) {
        int device = current_context->device;
        if (!source) return executor->fill((uint64_t)target, value, bytes, stream, device);
        wrong = executor->copy((uint64_t)target, to, (uint64_t)source, from, bytes, stream, device);
        /* A copy to memory that is not pinned is done when the call returns. */
        return wrong || to != NONE || captured ? wrong : executor->synchronise(stream, device);
    }
    if (captured) return SUCCESS;
    if (source) memmove(target, source, bytes);
    else memset(target, value, bytes);
    return SUCCESS;
}

static int finished(int wrong) {
    return wrong || !executor ? wrong : executor->synchronise(NULL, current_context->device);
}

#define COPY(name, dst, src, bytes, stream, check)                                                   \
    CALL(name, "dst=%#lx src=%#lx bytes=%zu stream=%p", (uint64_t)(dst), (uint64_t)(src), bytes, (void *)stream); \
    if (!current_context) return INVALID_CONTEXT;                                                    \
    if (!(check)) return INVALID_VALUE;                                                              \
    int wrong = transfer((void *)(dst), (const void *)(src), 0, bytes, stream)

EXPORT int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t bytes, Handle *stream) {
    COPY("cuMemcpyAsync", dst, src, bytes, stream, 1);
    return wrong;
}

EXPORT int cuMemcpy(uint64_t dst, uint64_t src, size_t bytes) {
    Handle *stream = NULL;
    COPY("cuMemcpy", dst, src, bytes, stream, 1);
    return finished(wrong);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, Handle *stream) {
    COPY("cuMemcpyHtoDAsync", dst, src, bytes, stream, is_device_memory(dst, bytes));
    return wrong;
}

EXPORT int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes) {
    Handle *stream = NULL;
    COPY("cuMemcpyHtoD", dst, src, bytes, stream, is_device_memory(dst, bytes));
    return finished(wrong);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, Handle *stream) {
    COPY("cuMemcpyDtoHAsync", dst, src, bytes, stream, is_device_memory(src, bytes));
    return wrong;
}

EXPORT int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes) {
    Handle *stream = NULL;
    COPY("cuMemcpyDtoH", dst, src, bytes, stream, is_device_memory(src, bytes));
    return finished(wrong);
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, Handle *stream) {
    COPY("cuMemcpyDtoDAsync", dst, src, bytes, stream,
         is_device_memory(dst, bytes) && is_device_memory(src, bytes));
    return wrong;
}

EXPORT int cuMemcpyPeerAsync(uint64_t dst, Handle *to, uint64_t src, Handle *from, size_t bytes, Handle *stream) {
    (void)to;
    (void)from;
    COPY("cuMemcpyPeerAsync", dst, src, bytes, stream,
         is_device_memory(dst, bytes) && is_device_memory(src, bytes));
    return wrong;
}

EXPORT int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t bytes, Handle *stream) {
    CALL("cuMemsetD8Async", "dst=%#lx value=%d bytes=%zu stream=%p", dst, value, bytes, (void *)stream);
    if (!current_context) return INVALID_CONTEXT;
    return is_device_memory(dst, bytes) ? transfer((void *)dst, NULL, value, bytes, stream) : INVALID_VALUE;
}

EXPORT int cuMemsetD8_v2(uint64_t dst, unsigned char value, size_t bytes) {
    CALL("cuMemsetD8", "dst=%#lx value=%d bytes=%zu", dst, value, bytes);
    if (!current_context) return INVALID_CONTEXT;
    return is_device_memory(dst, bytes) ? transfer((void *)dst, NULL, value, bytes, NULL) : INVALID_VALUE;
}
