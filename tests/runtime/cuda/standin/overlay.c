/* Lays the runtime API of this library over the one that another library of the process holds.

   CuPy's `runtime` module is linked statically with NVIDIA's, but keeps its symbols: each function of the same name gets
   a jump to ours as its first instruction. Functions without a counterpart here stay, and find no driver to serve. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "standin.h"

#define PREFIX "standin_"

typedef struct { const char *path; uintptr_t base; } Loaded;

static int matches(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    Loaded *wanted = data;
    if (strcmp(info->dlpi_name, wanted->path)) return 0;
    wanted->base = info->dlpi_addr;
    return 1;
}

/* jmp *0(%rip), and the address behind it. */
static int redirect(unsigned char *from, const void *to) {
    unsigned char jump[14] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(jump + 6, &to, sizeof to);
    long page = sysconf(_SC_PAGESIZE);
    unsigned char *start = (unsigned char *)((uintptr_t)from / page * page);
    size_t length = (size_t)(from + sizeof jump - start);
    if (mprotect(start, length, PROT_READ | PROT_WRITE | PROT_EXEC)) return 0;
    memcpy(from, jump, sizeof jump);
    return !mprotect(start, length, PROT_READ | PROT_EXEC);
}

static int replace(const unsigned char *file, uintptr_t base, void *self) {
    const Elf64_Ehdr *header = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
    int replaced = 0;
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const Elf64_Sym *symbols = (const void *)(file + sections[i].sh_offset);
        const char *names = (const char *)file + sections[sections[i].sh_link].sh_offset;
        for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++) {
            char name[128];
            const char *symbol = names + symbols[j].st_name;
            if (ELF64_ST_TYPE(symbols[j].st_info) != STT_FUNC || strncmp(symbol, "cuda", 4)) continue;
            snprintf(name, sizeof name, PREFIX "%s", symbol);
            void *ours = dlsym(self, name);
            if (!strcmp(symbol, "cudaGetDeviceProperties_v2")) setenv("STANDIN_RUNTIME", "12000", 0); /* it is CUDA 12's */
            if (ours) replaced += redirect((unsigned char *)base + symbols[j].st_value, ours);
        }
    }
    return replaced;
}

/* The number of functions that were replaced in the loaded library of this path; 0 where it holds none. */
EXPORT int standin_replace_runtime(const char *path) {
    Loaded library = {path, 0};
    Dl_info here;
    struct stat status;
    int descriptor = open(path, O_RDONLY), replaced = 0;
    if (descriptor < 0) return 0;
    if (dl_iterate_phdr(matches, &library) && dladdr((void *)redirect, &here) && !fstat(descriptor, &status)) {
        void *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (file != MAP_FAILED) {
            replaced = replace(file, library.base, dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
            munmap(file, (size_t)status.st_size);
        }
    }
    close(descriptor);
    return replaced;
}
