// What Swift's importer cannot use of ncurses: macros, variadic functions, cchar_t, and the global stdscr. curses.h stays out
// of this header: its macros and its _XOPEN_SOURCE would change what other modules see of the C library.
#ifndef TOUCHLINE_CNCURSESSHIMS_H
#define TOUCHLINE_CNCURSESSHIMS_H

#include <stdint.h>

enum { shim_ready, shim_unknown_terminal, shim_cursor_cannot_move };

/// The codes that shim_key() gives for keys that are no character.
enum {
  shim_no_key = -1,
  shim_key_up = 0x200000,
  shim_key_down,
  shim_key_left,
  shim_key_right,
  shim_key_enter,
  shim_key_other
};

enum { shim_bold = 1, shim_dim = 2, shim_reverse = 4 };

/// Makes the C library take text for UTF-8; whether it does.
int shim_locale(void);
/// Takes over the terminal on descriptor 1 (output) and `input`. Once a process.
int shim_open(int input, int wants_colour);
/// Gives it back as it was. Idempotent; also called at exit, and by signals that end a program that crashed.
void shim_close(void);

int shim_rows(void);
int shim_columns(void);
/// Colours of the terminal: 0, 8, 16, 256, or 2^24 where a colour's number is its RGB value.
int shim_colours(void);
/// Defines a pair of colours; -1 is the terminal's own.
int shim_pair(int pair, int foreground, int background);
/// Asks the system for the size after SIGWINCH.
void shim_resize(void);

void shim_erase(void);
/// Puts one cell's scalars (a base and up to four marks) at a place.
void shim_put(int row, int column, const uint32_t *scalars, int count, int attributes, int pair);
/// Sends what differs from what the terminal shows.
void shim_show(void);
/// Forgets what the terminal shows, so that the next shim_show() sends everything.
void shim_forget(void);

/// The next key or character, or shim_no_key; does not wait.
int shim_key(void);
/// Whether nothing will ever come from a descriptor again.
int shim_hung_up(int descriptor);
/// How wide the C library, and so curses, takes a scalar to be; -1 when it is not printable.
int shim_width(uint32_t scalar);

#endif
