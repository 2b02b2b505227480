/* Catches its own faults as collectors do: the handler unprotects, writes a note and lets the access go on. */
#include "hostile.h"

static char *heap;
static int notes;
static volatile sig_atomic_t faults;

static void on_fault(int number, siginfo_t *information, void *context)
{
    (void)number;
    (void)context;
    char *page = (char *)((unsigned long)information->si_addr & ~4095ul);
    if (page < heap || page >= heap + 64 * BLOCK)
        _exit(77);
    faults++;
    mprotect(page, BLOCK, PROT_READ | PROT_WRITE);
    dprintf(notes, "page %ld code %d\n", (long)(page - heap) / BLOCK, information->si_code);
}

int main(int argc, char **argv)
{
    (void)argc;
    notes = open("out/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    heap = mmap(NULL, 64 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    int fd = open(argv[1], O_RDONLY);
    for (int round = 0; round < ROUNDS; round++) {
        mprotect(heap, 64 * BLOCK, round & 1 ? PROT_READ : PROT_NONE);
        cold_reads_fd(fd);
        effect();
        for (int i = 0; i < 16; i++) {
            heap[(checksum >> i) % 64 * BLOCK] = i;
            checksum = checksum * 1103515245 + 12345;
        }
        say("faults", faults);
        /* The kernel must say EFAULT for a protected buffer, not raise the signal. */
        mprotect(heap, BLOCK, PROT_NONE);
        say("into a guard", pread(fd, heap, BLOCK, (off_t)(round * 300 + 41) * BLOCK));
    }
    return finish();
}
