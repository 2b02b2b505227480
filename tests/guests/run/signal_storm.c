/* Cold reads and look-ups under a timer that strikes all the time, with and without SA_RESTART. */
#include "hostile.h"

static volatile sig_atomic_t strikes;

static void on_strike(int number)
{
    strikes += number != 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        struct sigaction action = {.sa_handler = on_strike, .sa_flags = round & 1 ? SA_RESTART : 0};
        sigaction(SIGALRM, &action, NULL);
        struct itimerval all = {{0, 200}, {0, 200}}, none = {{0, 0}, {0, 0}};
        effect();
        setitimer(ITIMER_REAL, &all, NULL);
        cold_reads(argv[1]);
        for (int i = 0; i < 4; i++) {
            char name[32];
            struct stat st;
            snprintf(name, sizeof name, "out/victim%d", i);
            if (stat(name, &st) < 0)
                die(name);
            checksum += st.st_size;
            FILE *file = fopen(name, "r");
            for (int c; (c = fgetc(file)) != EOF;)
                checksum = checksum * 31 + c;
            fclose(file);
        }
        setitimer(ITIMER_REAL, &none, NULL);
    }
    say("struck", strikes > 0);
    return finish();
}
