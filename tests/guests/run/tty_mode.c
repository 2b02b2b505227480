/* Sets terminal modes, size, foreground group and flushes, on a terminal of its own. */
#include "hostile.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(int argc, char **argv)
{
    (void)argc;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(master);
    unlockpt(master);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0)
        die("pty");
    write(master, "typed ahead\n", 12);
    for (int waiting = 0; waiting < 12; ioctl(slave, FIONREAD, &waiting))
        usleep(1000);
    for (int round = 0; round < ROUNDS; round++) {
        cold_reads(argv[1]);
        struct termios modes;
        struct winsize size;
        tcgetattr(slave, &modes);
        ioctl(slave, TIOCGWINSZ, &size);
        int waiting = 0;
        ioctl(slave, FIONREAD, &waiting);
        dprintf(1, "modes %x rows %d waiting %d\n", modes.c_lflag, size.ws_row, waiting);
        effect();
        modes.c_lflag ^= ECHO | (round & 1 ? ICANON : 0);
        say("tcsetattr", tcsetattr(slave, TCSANOW, &modes));
        size.ws_row = 10 + round;
        say("size", ioctl(slave, TIOCSWINSZ, &size));
        if (round == 1)
            say("flush", tcflush(slave, TCIFLUSH));
        say("write", write(slave, "shown\n", 6));
    }
    char shown[256];
    long total = 0, got;
    struct pollfd ready = {master, POLLIN, 0};
    /* The kernel carries output to the master in its own time. */
    while (poll(&ready, 1, 300) == 1 && (got = read(master, shown, sizeof shown)) > 0)
        total += got;
    say("shown", total);
    return finish();
}
