/* Keeps memory from its children, gives it up by a shorter heap, by detaching it or by being a child, and has other memory there
 * then, which children have. Then children are forked while another thread stalls: they lack what is kept. */
#include "hostile.h"
#include <sys/shm.h>

enum { BYTES = 1 << 20, READERS_ROUNDS = 8 };

static const char *data;
static char *kept;
static volatile int done;

static void *check(void *at)
{
    if (at == (void *)-1)
        die("memory");
    return at;
}

static char *map(void *at)
{
    return check(mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void keep(char *at)
{
    if (madvise(at, BYTES, MADV_DONTFORK) < 0)
        die("madvise");
}

/* Speculators are forked in between. */
static void child_has(const char *what, char *at)
{
    *at = 42;
    for (int i = 0; i < 4; i++)
        cold_reads(data);
    pid_t child = fork();
    if (child == 0)
        _exit(*at);
    int status;
    if (waitpid(child, &status, 0) != child)
        die("waitpid");
    say(what, status);
}

static void *reads(void *unused)
{
    (void)unused;
    for (int i = 0; i < READERS_ROUNDS; i++)
        cold_reads(data);
    done = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argc;
    data = argv[1];
    /* The end of the heap is whole pages. */
    char *heap = (char *)(((uintptr_t)sbrk(0) + BLOCK - 1) & ~(uintptr_t)(BLOCK - 1));
    if (brk(heap + BYTES) < 0)
        die("brk");
    keep(heap);
    if (brk(heap) < 0 || brk(heap + BYTES) < 0)
        die("brk");
    child_has("heap", heap);

    int segment = shmget(IPC_PRIVATE, BYTES, 0600 | IPC_CREAT);
    char *attached = check(shmat(segment, NULL, 0));
    shmctl(segment, IPC_RMID, NULL);
    keep(attached);
    shmdt(attached);
    child_has("where a segment was", map(attached));

    kept = map(NULL);
    keep(kept);
    pid_t child = fork();
    if (child == 0) {
        child_has("in a child", map(kept));
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child)
        die("waitpid");
    say("child", status);

    pthread_t reader;
    pthread_create(&reader, NULL, reads, NULL);
    int had = 0;
    while (!done) {
        child = fork();
        if (child == 0) {
            unsigned char is_there;
            _exit(mincore(kept, BLOCK, &is_there) == 0);
        }
        if (waitpid(child, &status, 0) != child)
            die("waitpid");
        had += status != 0;
    }
    pthread_join(reader, NULL);
    say("children that had it", had);
    return finish();
}
