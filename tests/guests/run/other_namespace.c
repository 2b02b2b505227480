/* Loads a second C library beside its own (dlmopen) and reads through that one. */
#include "hostile.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    (void)argc;
    cold_reads(argv[1]);
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    if (!library) {
        dprintf(1, "%s\n", dlerror());
        return finish();
    }
    ssize_t (*other_pread)(int, void *, size_t, off_t) =
        (ssize_t(*)(int, void *, size_t, off_t))dlsym(library, "pread");
    int (*other_open)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(library, "open");
    unsigned char bytes[BLOCK];
    effect();
    int fd = other_open(argv[1], O_RDONLY);
    for (int i = 0; i < 2 * READS; i++)
        digest(bytes, (i & 3 ? other_pread : pread)(fd, bytes, BLOCK, (off_t)(block_next++ * 769u % 2000) * BLOCK));
    cold_reads(argv[1]);
    say("descriptor", fd);
    return finish();
}
