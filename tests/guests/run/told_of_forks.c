/* Is told of its own forks by a userfaultfd, which it looks at itself: whoever else forks it waits for that. */
#include "hostile.h"
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

int main(int argc, char **argv)
{
    (void)argc;
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_FORK};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) < 0)
        return finish();
    void *area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {
        .range = {(uintptr_t)area, 1 << 20},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    say("register", ioctl(faults, UFFDIO_REGISTER, &range));
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct pollfd event = {faults, POLLIN, 0};
        say("forks", poll(&event, 1, 0));
    }
    return finish();
}
