/* Serves faults of its own memory with userfaultfd, from a thread, and looks at its own page map and residency, while
   other memory of its is swapped out. */
#include "faulting.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

enum { SERVED = 8 << 20 };

static int faults = -1;
static unsigned char *served;
static volatile int count;

static void *serve(void *unused)
{
    static unsigned char page[BLOCK] __attribute__((aligned(4096)));
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        uintptr_t at = message.arg.pagefault.address & ~(uintptr_t)(BLOCK - 1);
        memset(page, value_of(at - (uintptr_t)served), BLOCK);
        struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = BLOCK};
        /* Before the other thread goes on. */
        count++;
        ioctl(faults, UFFDIO_COPY, &copy);
    }
    return unused;
}

int main(void)
{
    unsigned char *data = memory(MEMORY, MAP_PRIVATE);
    faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    served = mmap(NULL, SERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)served, SERVED}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) < 0 || ioctl(faults, UFFDIO_REGISTER, &range) < 0) {
        say("userfaultfd", -1);
        return finish();
    }
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    int map = open("/proc/self/pagemap", O_RDONLY);
    for (int round = 0; round < ROUNDS; round++) {
        touch_pages(data, MEMORY, TOUCHES);
        effect();
        append_line("out/file", round);
        for (int i = 0; i < 50; i++)
            checksum = checksum * 31 + served[next_page(SERVED)];
        unsigned char resident[64];
        uint64_t entries[64];
        /* Which pages are in memory changes from run to run; that the kernel tells does not. */
        say("mincore", mincore(data + next_page(MEMORY / 2), 64 * BLOCK, resident));
        say("pagemap", pread(map, entries, sizeof entries, (uintptr_t)data / BLOCK * 8));
    }
    say("served", count);
    return finish();
}
