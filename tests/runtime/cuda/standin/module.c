/* Modules, functions and launches. A launch is checked and recorded with the bytes of its arguments. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define MADE_UP "standin"
#define MAX_SHARED_DEFAULT 49152
#define MAX_THREADS 1024
#define REGISTERS 65536
#define COOPERATIVE 2
#define CLUSTER_DIMENSION 4
#define MULTIPROCESSORS 16 /* a device's attribute */

int cuDeviceGetAttribute(int *, int, int);

/* .nv.info: each entry is a format, an attribute and 16 bits, which for SVAL are the length of a payload. */
#define SVAL 0x04
#define REQUIRED_THREADS 0x10
#define REGISTER_COUNT 0x2f
#define PARAMETER_INFO 0x17

typedef struct { uint32_t index; uint16_t ordinal, offset; uint32_t packed; } ParameterInfo;

static struct { char name[256]; int count; uint16_t sizes[MAX_PARAMETERS]; } told[64];
static int told_count;

/* The sizes of the parameters of a kernel whose image says nothing of them. */
EXPORT int standin_tell(const char *name, int count, const int *sizes) {
    if (told_count == 64 || count > MAX_PARAMETERS) return INVALID_VALUE;
    snprintf(told[told_count].name, sizeof told->name, "%s", name);
    told[told_count].count = count;
    for (int i = 0; i < count; i++) told[told_count].sizes[i] = (uint16_t)sizes[i];
    told_count++;
    return SUCCESS;
}

static size_t image_bytes(const Elf64_Ehdr *header) {
    size_t end = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    size_t programs = header->e_phoff + (size_t)header->e_phnum * header->e_phentsize;
    return end > programs ? end : programs;
}

static const Elf64_Shdr *section(const unsigned char *image, const char *prefix, const char *name) {
    const Elf64_Ehdr *header = (const void *)image;
    const Elf64_Shdr *sections = (const void *)(image + header->e_shoff);
    const char *names = (const char *)image + sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < header->e_shnum; i++) {
        const char *found = names + sections[i].sh_name;
        if (!strncmp(found, prefix, strlen(prefix)) && !strcmp(found + strlen(prefix), name)) return &sections[i];
    }
    return NULL;
}

/* The major version of CUDA whose tools made a cubin: a note says so from ABI version 8 on. */
static int made_by(const Elf64_Ehdr *header) {
    static const char before[] = "Cuda compilation tools, release ";
    const unsigned char *image = (const void *)header;
    const Elf64_Shdr *note = section(image, ".note.nv.", "tkinfo");
    for (size_t i = 0; note && i + sizeof before < note->sh_size; i++) {
        const char *text = (const char *)image + note->sh_offset + i;
        if (!strncmp(text, before, sizeof before - 1)) return atoi(text + sizeof before - 1);
    }
    return 12;
}

/* Cubins run on devices of their major version with the same minor one or a later, under drivers that are not of an
   earlier CUDA. ABI version 8 moved the field. */
static int refused_cubin(const Elf64_Ehdr *header) {
    if (made_by(header) > standin_setting("DRIVER", 13020) / 1000) return INVALID_IMAGE;
    int target = header->e_ident[EI_ABIVERSION] >= 8 ? header->e_flags >> 8 & 0xff : header->e_flags & 0xff;
    int here = (int)standin_setting("CAPABILITY", 90);
    return target / 10 == here / 10 && target % 10 <= here % 10 ? SUCCESS : NO_BINARY_FOR_GPU;
}

/* PTX is compiled by the driver, if it is of an instruction set that the driver's CUDA version has. */
static int refused_ptx(const char *text) {
    int driver = (int)standin_setting("DRIVER", 13020), cuda = driver / 1000, minor = driver % 1000 / 10;
    int known = cuda >= 13 ? (cuda - 4) * 10 + minor : 80 + minor - (minor >= 6);
    int major, after, target;
    const char *version = strstr(text, ".version"), *wanted = strstr(text, ".target");
    if (!version || sscanf(version, ".version %d.%d", &major, &after) != 2) return INVALID_PTX;
    if (!wanted || sscanf(wanted, ".target sm_%d", &target) != 1) return INVALID_PTX;
    if (10 * major + after > known) return UNSUPPORTED_PTX_VERSION;
    return target == standin_setting("CAPABILITY", 90) ? SUCCESS : NO_BINARY_FOR_GPU;
}

EXPORT int cuModuleLoadData(Handle **module, const void *image) {
    const Elf64_Ehdr *header = image;
    int is_elf = !memcmp(image, ELFMAG, SELFMAG), is_made_up = !memcmp(image, MADE_UP, sizeof MADE_UP);
    const char *text = (const char *)image + (is_elf ? 0 : strspn(image, " \n"));
    int is_ptx = !memcmp(text, "//", 2) || !strncmp(text, ".version", 8);
    size_t bytes = is_elf ? image_bytes(header) : is_ptx ? strlen(image) + 1 : 0;
    CALL("cuModuleLoadData", "bytes=%zu kind=%s abi=%d cuda=%d", bytes, is_elf ? "cubin" : is_ptx ? "ptx" : "other",
         is_elf ? header->e_ident[EI_ABIVERSION] : 0, is_elf ? made_by(header) : 0);
    if (!current_context) return INVALID_CONTEXT;
    if (any_capture()) {
        invalidate_captures();
        return CAPTURE_UNSUPPORTED;
    }
    if (!is_elf && !is_ptx && !is_made_up) return INVALID_IMAGE;
    int wrong = is_elf ? refused_cubin(header) : is_ptx ? refused_ptx(image) : SUCCESS;
    if (wrong) return wrong;
    *module = new_handle(MODULE, current_context->device);
    (*module)->module.is_ptx = is_ptx;
    if (bytes) {
        (*module)->module.image = malloc(bytes);
        memcpy((*module)->module.image, image, bytes);
    }
    return executor ? executor->load(*module, (*module)->device, image, bytes - is_ptx) : SUCCESS;
}

EXPORT int cuModuleLoadDataEx(Handle **module, const void *image, unsigned count, int *options, void **values) {
    (void)count;
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

EXPORT int cuModuleUnload(Handle *module) {
    CALL("cuModuleUnload", "module=%p", (void *)module);
    if (!is_live(module, MODULE)) return INVALID_HANDLE;
    module->kind = FREED;
    return executor ? executor->unload(module) : SUCCESS;
}

EXPORT int cuModuleGetLoadingMode(int *mode) {
    CALL("cuModuleGetLoadingMode", "%s", "");
    *mode = 2; /* lazy */
    return SUCCESS;
}

/* The sizes of the parameters and the number of threads, as the compiler wrote them into the image. */
static void read_info(Handle *function, const unsigned char *image, const Elf64_Shdr *info) {
    const unsigned char *at = image + info->sh_offset, *end = at + info->sh_size;
    function->function.parameters = 0;
    while (at < end) {
        int format = at[0], attribute = at[1], length = format == SVAL ? at[2] | at[3] << 8 : 0;
        if (format == SVAL && attribute == PARAMETER_INFO) {
            ParameterInfo parameter;
            memcpy(&parameter, at + 4, sizeof parameter);
            function->function.sizes[parameter.ordinal] = (uint16_t)(parameter.packed >> 18 & 0x3fff);
            function->function.offsets[parameter.ordinal] = parameter.offset;
            if (parameter.ordinal >= function->function.parameters)
                function->function.parameters = parameter.ordinal + 1;
        }
        if (format == SVAL && attribute == REQUIRED_THREADS) {
            uint32_t threads[3];
            memcpy(threads, at + 4, sizeof threads);
            function->function.max_threads = (int)(threads[0] * threads[1] * threads[2]);
            function->function.required_threads = function->function.max_threads;
        }
        at += 4 + length;
    }
}

static size_t bytes_of(const char *type) {
    int bits = 0;
    sscanf(type, "%*[a-z]%d", &bits);
    return (size_t)bits / 8;
}

/* The same from the text of an entry, whose parameters are written ".param .u64 .ptr .global .align 1 name", or
   ".param .align 64 .b8 name[128]". */
static void read_entry(Handle *function, const char *at) {
    const char *end = strchr(at, ')'), *threads = strstr(at, ".reqntid");
    size_t taken = 0;
    while ((at = strstr(at, ".param ")) && at < end) {
        int alignment = 0, length = 1, i = function->function.parameters++;
        char type[16] = "";
        at += strlen(".param ");
        if (sscanf(at, ".align %d", &alignment) == 1) at = strchr(at + 1, '.');
        sscanf(at, ".%15s", type);
        const char *stop = strpbrk(at, ",)\n"), *bracket = strchr(at, '[');
        if (bracket && bracket < stop) sscanf(bracket, "[%d]", &length);
        size_t unit = alignment ? (size_t)alignment : bytes_of(type), size = bytes_of(type) * length;
        if (unit) taken = (taken + unit - 1) / unit * unit;
        function->function.offsets[i] = (uint16_t)taken;
        function->function.sizes[i] = (uint16_t)size;
        taken += size;
    }
    if (threads) {
        sscanf(threads, ".reqntid %d", &function->function.max_threads);
        function->function.required_threads = function->function.max_threads;
    }
}

/* Where an entry's parameters begin in a text of PTX. */
static const char *entry(const char *text, const char *name) {
    size_t length = strlen(name);
    while ((text = strstr(text, ".entry "))) {
        text += strlen(".entry ");
        if (!strncmp(text, name, length) && text[length] == '(') return text + length;
    }
    return NULL;
}

/* A thread's registers, which bound the threads of a block: .nv.info has them by the number of the kernel's symbol,
   which the kernel's section names. */
static void read_registers(Handle *function, const unsigned char *image, const Elf64_Shdr *text) {
    const Elf64_Shdr *info = section(image, ".nv.info", "");
    if (!info) return;
    const unsigned char *at = image + info->sh_offset, *end = at + info->sh_size;
    uint32_t counted[2];
    while (at < end) {
        int length = at[0] == SVAL ? at[2] | at[3] << 8 : 0;
        memcpy(counted, at + 4, length >= (int)sizeof counted ? sizeof counted : 0);
        if (length && at[1] == REGISTER_COUNT && counted[0] == (text->sh_info & 0xffffff)) {
            int registers = (int)counted[1], most = REGISTERS / ((registers + 7) / 8 * 8) / 32 * 32;
            function->function.registers = registers;
            if (most < function->function.max_threads) function->function.max_threads = most;
        }
        at += 4 + length;
    }
}

EXPORT int cuModuleGetFunction(Handle **function, Handle *module, const char *name) {
    CALL("cuModuleGetFunction", "module=%p function=%s", (void *)module, name);
    if (!is_live(module, MODULE)) return INVALID_HANDLE;
    const unsigned char *image = module->module.image;
    const char *parameters = module->module.is_ptx ? entry((const char *)image, name) : NULL;
    if (module->module.is_ptx ? !parameters : image && !section(image, ".text.", name)) return NOT_FOUND;
    Handle *made = *function = new_handle(FUNCTION, module->device);
    snprintf(made->function.name, sizeof made->function.name, "%s", name);
    made->function.module = module;
    made->function.max_threads = MAX_THREADS;
    made->function.dynamic_shared = MAX_SHARED_DEFAULT;
    made->function.registers = 32;
    made->function.parameters = -1;
    made->function.sizes = calloc(MAX_PARAMETERS, sizeof *made->function.sizes);
    made->function.offsets = calloc(MAX_PARAMETERS, sizeof *made->function.offsets);
    const Elf64_Shdr *info = image && !parameters ? section(image, ".nv.info.", name) : NULL;
    if (info) read_info(made, image, info);
    if (parameters) {
        made->function.parameters = 0;
        read_entry(made, parameters);
    }
    for (int i = 0; i < told_count && made->function.parameters < 0; i++) {
        if (strcmp(told[i].name, name)) continue;
        made->function.parameters = told[i].count;
        memcpy(made->function.sizes, told[i].sizes, sizeof told[i].sizes);
    }
    if (image && !parameters) read_registers(made, image, section(image, ".text.", name));
    if (executor && image) {
        int wrong = executor->describe(module, made, name, &made->function.parameters, made->function.sizes,
                                       made->function.offsets, &made->function.required_threads,
                                       &made->function.static_shared);
        if (wrong) return wrong;
    }
    int fewer = (int)standin_setting("THREADS", 0);
    if (fewer) made->function.max_threads = fewer;
    return SUCCESS;
}

/* Attributes by their number in CUfunction_attribute. */
EXPORT int cuFuncGetAttribute(int *value, int attribute, Handle *function) {
    CALL("cuFuncGetAttribute", "attribute=%d function=%s", attribute,
         is_live(function, FUNCTION) ? function->function.name : "?");
    if (!is_live(function, FUNCTION)) return INVALID_HANDLE;
    switch (attribute) {
        case 0: *value = function->function.max_threads; break;
        case 1: *value = function->function.static_shared; break;
        case 4: *value = function->function.registers; break;
        case 8: *value = function->function.dynamic_shared; break;
        default: *value = 0;
    }
    return SUCCESS;
}

EXPORT int cuFuncSetAttribute(Handle *function, int attribute, int value) {
    CALL("cuFuncSetAttribute", "function=%s attribute=%d value=%d",
         is_live(function, FUNCTION) ? function->function.name : "?", attribute, value);
    if (!is_live(function, FUNCTION)) return INVALID_HANDLE;
    if (attribute != 8) return SUCCESS;
    if (value > standin_setting("SHARED", 232448)) return INVALID_VALUE;
    function->function.dynamic_shared = value;
    return SUCCESS;
}

EXPORT int cuFuncGetParamInfo(Handle *function, size_t index, size_t *offset, size_t *bytes) {
    CALL("cuFuncGetParamInfo", "index=%zu", index);
    if (!is_live(function, FUNCTION)) return INVALID_HANDLE;
    if ((int)index >= function->function.parameters) return INVALID_VALUE;
    size_t at = 0;
    if (function->function.offsets[index]) at = function->function.offsets[index];
    for (size_t i = 0; i <= index && !function->function.offsets[index]; i++) {
        size_t size = function->function.sizes[i];
        if (size) at = (at + size - 1) / size * size;
        *offset = at;
        at += size;
    }
    if (bytes) *bytes = function->function.sizes[index];
    return SUCCESS;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle *function, int threads, size_t shared) {
    CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor", "threads=%d shared=%zu", threads, shared);
    if (!is_live(function, FUNCTION)) return INVALID_HANDLE;
    *blocks = 2048 / threads;
    return SUCCESS;
}

typedef struct {
    unsigned grid[3], block[3], shared;
    Handle *stream;
    const unsigned char *attributes; /* 72 bytes each: a number, then at 8 its value */
    unsigned count;
} Configuration;

/* "12000000,0000803f" for an i32 and an fp32: every argument's bytes in the order of memory. */
static void describe_arguments(const Handle *function, void **parameters, char *text, size_t room) {
    size_t used = 0;
    text[0] = 0;
    if (function->function.parameters < 0 || !parameters) {
        snprintf(text, room, "?");
        return;
    }
    for (int i = 0; i < function->function.parameters; i++) {
        if (i) used += snprintf(text + used, room - used, ",");
        for (int byte = 0; byte < function->function.sizes[i] && used + 3 < room; byte++)
            used += snprintf(text + used, room - used, "%02x", ((unsigned char *)parameters[i])[byte]);
    }
}

/* Reads the arguments as a driver does, each from its pointer to its place in the constant bank. */
static int execute(const Configuration *c, const Handle *function, const Handle *stream, void **parameters) {
    unsigned char bank[4096] = {0};
    size_t end = 0;
    int count = function->function.parameters;
    if (count > 0 && !parameters) return INVALID_VALUE;
    for (int i = 0; i < count; i++) {
        size_t offset = function->function.offsets[i], size = function->function.sizes[i];
        if (offset + size > sizeof bank) return INVALID_VALUE;
        memcpy(bank + offset, parameters[i], size);
        if (offset + size > end) end = offset + size;
    }
    return executor->launch(function, stream, function->device, c->grid, c->block, c->shared, bank, end);
}

/* What is asked of a launch beside its shape. Clusters are not executed; all blocks of a cooperative launch must be on
   the device at once. */
static int check_attributes(const Configuration *c, int is_cooperative, const Handle *function) {
    for (unsigned i = 0; i < c->count; i++) {
        uint32_t number, value[3];
        memcpy(&number, c->attributes + 72 * i, 4);
        memcpy(value, c->attributes + 72 * i + 8, sizeof value);
        if (number == CLUSTER_DIMENSION && value[0] * value[1] * value[2] > 1) return NOT_SUPPORTED;
        if (number == COOPERATIVE) is_cooperative |= value[0] != 0;
    }
    if (!is_cooperative) return SUCCESS;
    int blocks = 0, multiprocessors = 0;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (Handle *)function, (int)(c->block[0] * c->block[1] * c->block[2]),
                                                c->shared);
    cuDeviceGetAttribute(&multiprocessors, MULTIPROCESSORS, function->device);
    uint64_t grid = (uint64_t)c->grid[0] * c->grid[1] * c->grid[2];
    return grid > (uint64_t)blocks * (uint64_t)multiprocessors ? COOPERATIVE_TOO_LARGE : SUCCESS;
}

static int launch(const char *name, const Configuration *c, Handle *function, void **parameters) {
    int known = is_live(function, FUNCTION);
    if (standin_watching) {
        char arguments[4096] = "?", attributes[1024] = "";
        size_t used = 0;
        if (known) describe_arguments(function, parameters, arguments, sizeof arguments);
        for (unsigned i = 0; i < c->count && i < 16; i++) {
            uint32_t number, value[3];
            memcpy(&number, c->attributes + 72 * i, 4);
            memcpy(value, c->attributes + 72 * i + 8, sizeof value);
            used += snprintf(attributes + used, sizeof attributes - used, "%s%u:%u:%u:%u", i ? "," : "", number,
                             value[0], value[1], value[2]);
        }
        int fault = standin_record(name, "function=%s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p attributes=%s "
                                   "arguments=%s", known ? function->function.name : "?", c->grid[0], c->grid[1],
                                   c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, (void *)c->stream,
                                   attributes, arguments);
        if (fault) return fault;
    }
    if (!current_context) return INVALID_CONTEXT;
    if (!known || !is_live(function->function.module, MODULE)) return INVALID_HANDLE;
    if (function->device != current_context->device) return INVALID_HANDLE;
    Handle *stream;
    int wrong = stream_of(c->stream, &stream);
    if (wrong) return wrong;
    for (int i = 0; i < 3; i++)
        if (!c->grid[i] || !c->block[i] || c->grid[i] > (i ? 65535u : 2147483647u)) return INVALID_VALUE;
    unsigned threads = c->block[0] * c->block[1] * c->block[2];
    if (threads > MAX_THREADS || c->shared > (unsigned)function->function.dynamic_shared) return INVALID_VALUE;
    if (threads > (unsigned)function->function.max_threads) return LAUNCH_OUT_OF_RESOURCES;
    if (executor && function->function.required_threads && threads != (unsigned)function->function.required_threads)
        return INVALID_VALUE;
    if (executor && c->shared + (unsigned)function->function.static_shared > (unsigned)standin_setting("SHARED", 232448))
        return INVALID_VALUE;
    wrong = executor ? check_attributes(c, !strcmp(name, "cuLaunchCooperativeKernel"), function) : SUCCESS;
    if (wrong) return wrong;
    if (stream && stream->stream.graph) add_node(stream, KERNEL_NODE, NULL, function, 0, 0);
    return executor ? execute(c, function, stream, parameters) : SUCCESS;
}

EXPORT int cuLaunchKernel(Handle *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, Handle *stream, void **parameters, void **extra) {
    (void)extra;
    const Configuration c = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
    return launch("cuLaunchKernel", &c, function, parameters);
}

EXPORT int cuLaunchKernelEx(const Configuration *configuration, Handle *function, void **parameters, void **extra) {
    (void)extra;
    return launch("cuLaunchKernelEx", configuration, function, parameters);
}

EXPORT int cuLaunchCooperativeKernel(Handle *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared, Handle *stream, void **parameters) {
    const Configuration c = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
    return launch("cuLaunchCooperativeKernel", &c, function, parameters);
}

#define MAP_BYTES 128
#define MAP_RANK 5

/* A map is made up: the address that it is of, so that a test can tell whose map a kernel was given. What executes
   kernels makes its own. */
EXPORT int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *sizes,
                                  const uint64_t *pitches, const uint32_t *box, const uint32_t *steps, int interleave,
                                  int swizzle, int promotion, int fill) {
    CALL("cuTensorMapEncodeTiled", "address=%p type=%d rank=%u interleave=%d swizzle=%d promotion=%d fill=%d", address,
         type, rank, interleave, swizzle, promotion, fill);
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 1 || rank > MAP_RANK) return INVALID_VALUE;
    for (unsigned i = 0; i < rank; i++) {
        if (!sizes[i] || sizes[i] > UINT64_C(1) << 32) return INVALID_VALUE;
        if (!box[i] || box[i] > 256 || !steps[i] || steps[i] > 8) return INVALID_VALUE;
        if (i + 1 < rank && (pitches[i] % 16 || pitches[i] >> 40)) return INVALID_VALUE;
    }
    if (executor)
        return executor->encode_map(map, type, rank, (uint64_t)address, sizes, pitches, box, steps, interleave, swizzle,
                                    fill);
    memset(map, 0, MAP_BYTES);
    memcpy(map, &address, sizeof address);
    return SUCCESS;
}
