/* Opens a library after cold reads, calls it, closes it. */
#include "hostile.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            dprintf(2, "%s\n", dlerror());
            return 1;
        }
        int (*count)(void) = (int (*)(void))dlsym(library, "preloaded_count");
        say("count", count());
        cold_reads(argv[1]);
        say("close", dlclose(library));
        say("missing", dlopen("./missing.so", RTLD_NOW) != NULL);
    }
    return finish();
}
