/* Keeps memory from its children, as V8 does with its heap, and works in it: children find it missing. What is mapped there
 * later is theirs again. */
#include "hostile.h"
#include <sys/resource.h>

enum { PAGES = 64, AREAS = 5 };

static unsigned char *areas[AREAS];

static void child_looks(const char *what, const volatile unsigned char *at)
{
    pid_t child = fork();
    if (child == 0)
        _exit(*at);
    int status;
    if (waitpid(child, &status, 0) != child)
        die("waitpid");
    say(what, status);
}

static void *map(void *at, size_t size, int flags)
{
    void *area = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (area == MAP_FAILED)
        die("mmap");
    return area;
}

/* Cold reads into memory that children lack. */
static void work(int fd)
{
    for (int i = 0; i < 4 * READS; i++) {
        unsigned char *bytes = areas[i % AREAS] + BLOCK * (1 + i % (PAGES / 2));
        if (pread(fd, bytes, BLOCK, (off_t)(block_next++ * 769u % 2000) * BLOCK) != BLOCK)
            die("pread");
        digest(bytes, BLOCK);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    int fd = open(argv[1], O_RDONLY);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AREAS; i++) {
            areas[i] = map(NULL, PAGES * BLOCK, 0);
            memset(areas[i], 3, PAGES * BLOCK);
            if (madvise(areas[i], PAGES * BLOCK, MADV_DONTFORK) < 0)
                die("madvise");
        }
        work(fd);
        effect();
        for (int i = 0; i < AREAS; i++)
            child_looks("first page", areas[i]);
        /* An end of the first is unmapped, an end of the second is mapped anew, and of the third children have the middle. */
        munmap(areas[0] + (PAGES - 2) * BLOCK, 2 * BLOCK);
        unsigned char *anew = map(areas[0] + (PAGES - 2) * BLOCK, BLOCK, MAP_FIXED_NOREPLACE);
        map(areas[1] + (PAGES - 1) * BLOCK, BLOCK, MAP_FIXED);
        madvise(areas[2] + (PAGES - 4) * BLOCK, BLOCK, MADV_DOFORK);
        work(fd);
        child_looks("mapped where it was unmapped", anew);
        child_looks("mapped over it", areas[1] + (PAGES - 1) * BLOCK);
        child_looks("given to children", areas[2] + (PAGES - 4) * BLOCK);
        child_looks("before that", areas[2] + (PAGES - 5) * BLOCK);
        child_looks("behind that", areas[2] + (PAGES - 3) * BLOCK);
        munmap(anew, BLOCK);
        for (int i = 0; i < AREAS; i++)
            munmap(areas[i], (i ? PAGES : PAGES - 2) * BLOCK);
    }
    return finish();
}
