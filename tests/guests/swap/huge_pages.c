/* Has private and shared memory of huge pages, just as much as there is in the system's pool, and waits for cold data and
   for pages of a mapped file meanwhile. */
#include "faulting.h"

enum { HUGE = 2 << 20, PART = 2 * HUGE };

static unsigned char *huge(int flags)
{
    unsigned char *data = mmap(NULL, PART, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (data == MAP_FAILED)
        die("mmap of huge pages");
    return data;
}

int main(int argc, char **argv)
{
    (void)argc;
    memory(20 << 20, MAP_PRIVATE);
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    for (int round = 0; round < ROUNDS; round++) {
        /* A copy that is made here comes to the memory below before the program does. */
        cold_reads(argv[1]);
        unsigned char *file = cold_map(fd, st.st_size, PROT_READ, MAP_PRIVATE);
        unsigned char *own = huge(MAP_PRIVATE), *shared = huge(MAP_SHARED);
        fill_pages(own, PART);
        for (int part = 0; part < 8; part++) {
            touch_pages(file, st.st_size, TOUCHES / 16);
            cold_reads(argv[1]);
            /* What is read decides what is written, and where. */
            change_pages(own, PART, 30);
            change_pages(shared, PART, 30);
            long at = next_page(PART);
            say("read into huge pages", pread(fd, own + at, BLOCK, next_page(st.st_size)));
            say("and shared ones", pread(fd, shared + at, BLOCK, next_page(st.st_size)));
        }
        effect();
        pid_t child = fork();
        if (child == 0) {
            shared[BLOCK] = checksum;
            digest(own, PART);
            _exit(checksum & 63);
        }
        int status = -1;
        waitpid(child, &status, 0);
        say("child", status);
        say("told by it", shared[BLOCK] == (unsigned char)checksum);
        digest(shared, PART);
        digest(own, PART);
        say("protect", mprotect(own, HUGE, PROT_READ));
        touch_pages(file, st.st_size, TOUCHES / 8);
        append_line("out/file", round);
        /* All of it is back in the pool when the next round asks for it. */
        munmap(own, PART);
        munmap(shared, PART);
        munmap(file, st.st_size);
    }
    return finish();
}
