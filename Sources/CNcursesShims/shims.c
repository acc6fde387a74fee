// wcwidth() is XSI; the rest of the C library stays as it is without this.
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include "CNcursesShims.h"

// Makes curses.h declare its wide functions (curs_add_wch(3x)).
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

static SCREEN *screen;
static FILE *output;
static FILE *input;
static int is_open;
static struct termios saved;
static char restore[256];

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE};

// Only what signal-safety(7) allows: curses itself may be in the middle of anything.
static void restore_after_crash(int number) {
  if (is_open) {
    ssize_t ignored = write(STDOUT_FILENO, restore, strlen(restore));
    (void)ignored;
    tcsetattr(STDOUT_FILENO, TCSANOW, &saved);
  }
  raise(number); // SA_RESETHAND: now with its usual effect
}

static void remember(const char *capability) {
  char *text = tigetstr(capability);
  if (text && text != (char *)-1 && strlen(restore) + strlen(text) < sizeof restore) strcat(restore, text);
}

int shim_locale(void) {
  setlocale(LC_CTYPE, "");
  // Names have accents whatever the person's locale is; every terminal of today takes UTF-8.
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
  return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

int shim_open(int descriptor, int wants_colour) {
  if (is_open) return shim_ready;
  shim_locale();
  tcgetattr(STDOUT_FILENO, &saved);
  output = fdopen(dup(STDOUT_FILENO), "w");
  input = fdopen(dup(descriptor), "r");
  if (!output || !input) return shim_unknown_terminal;
  // newterm() and not initscr(), which ends the program when it fails (curs_initscr(3x)).
  screen = newterm(NULL, output, input);
  if (!screen) return shim_unknown_terminal;
  if (!tigetstr("cup") || tigetstr("cup") == (char *)-1) {
    endwin();
    return shim_cursor_cannot_move;
  }
  restore[0] = 0;
  remember("sgr0");
  remember("cnorm");
  remember("rmkx");
  remember("rmcup");
  is_open = 1;
  atexit(shim_close);
  struct sigaction action = {0};
  action.sa_handler = restore_after_crash;
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  for (unsigned i = 0; i < sizeof crashes / sizeof *crashes; i++) sigaction(crashes[i], &action, NULL);
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  leaveok(stdscr, TRUE);
  if (wants_colour && has_colors()) {
    start_color();
    use_default_colors();
  }
  return shim_ready;
}

void shim_close(void) {
  if (!is_open) return;
  curs_set(1);
  endwin();
  // endwin() restores the modes that newterm() found; this also covers one that was changed meanwhile.
  tcsetattr(STDOUT_FILENO, TCSADRAIN, &saved);
  is_open = 0;
  for (unsigned i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], SIG_DFL);
}

int shim_rows(void) { return LINES; }
int shim_columns(void) { return COLS; }

int shim_colours(void) {
  if (!has_colors() || COLORS < 8) return 0;
  if (COLORS >= 1 << 24 && tigetflag("RGB") > 0) return 1 << 24;
  return COLORS >= 256 ? 256 : COLORS >= 16 ? 16 : 8;
}

int shim_pair(int pair, int foreground, int background) {
  return init_extended_pair(pair, foreground, background) == OK;
}

void shim_resize(void) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    resizeterm(size.ws_row, size.ws_col);
}

void shim_erase(void) { erase(); }

void shim_put(int row, int column, const uint32_t *scalars, int count, int attributes, int pair) {
  wchar_t text[CCHARW_MAX + 1] = {0};
  for (int i = 0; i < count && i < CCHARW_MAX; i++) text[i] = (wchar_t)scalars[i];
  attr_t look = A_NORMAL;
  if (attributes & shim_bold) look |= A_BOLD;
  if (attributes & shim_dim) look |= A_DIM;
  if (attributes & shim_reverse) look |= A_REVERSE;
  cchar_t cell;
  // The pair beyond 32,767 goes through opts (curs_getcchar(3x)).
  if (setcchar(&cell, text, look, 0, &pair) == OK) mvadd_wch(row, column, &cell);
}

void shim_show(void) {
  wnoutrefresh(stdscr);
  doupdate();
}

void shim_forget(void) { clearok(curscr, TRUE); }

int shim_key(void) {
  wint_t key;
  switch (get_wch(&key)) {
  case OK: return key == L'\r' || key == L'\n' ? shim_key_enter : (int)key;
  case KEY_CODE_YES: break;
  default: return shim_no_key;
  }
  switch (key) {
  case KEY_UP: return shim_key_up;
  case KEY_DOWN: return shim_key_down;
  case KEY_LEFT: return shim_key_left;
  case KEY_RIGHT: return shim_key_right;
  case KEY_ENTER: return shim_key_enter;
  default: return shim_key_other;
  }
}

int shim_hung_up(int descriptor) {
  struct pollfd poller = {.fd = descriptor, .events = POLLIN};
  return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

int shim_width(uint32_t scalar) { return wcwidth((wchar_t)scalar); }
