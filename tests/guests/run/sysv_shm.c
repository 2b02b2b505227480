/* Counts in System V shared memory that a child attaches too. */
#include "hostile.h"
#include <sys/shm.h>

int main(int argc, char **argv)
{
    (void)argc;
    int id = shmget(IPC_PRIVATE, BLOCK, IPC_CREAT | 0600);
    volatile unsigned *words = shmat(id, NULL, 0);
    if (words == (void *)-1)
        die("shmat");
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        effect();
        words[0]++;
        if (fork() == 0) {
            volatile unsigned *again = shmat(id, NULL, 0);
            dprintf(1, "child reads %u\n", again[0]);
            _exit(0);
        }
        wait(NULL);
    }
    struct shmid_ds ds;
    shmctl(id, IPC_STAT, &ds);
    say("attached", ds.shm_nattch);
    say("remove", shmctl(id, IPC_RMID, NULL));
    shmdt((void *)words);
    say("gone", shmctl(id, IPC_STAT, &ds));
    return finish();
}
