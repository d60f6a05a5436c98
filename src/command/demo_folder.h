/* demo_folder: the temporary folder of a demo, and what is left of those that could not remove theirs.
 *
 * A file in it is locked as long as the demo or its server runs, for the kernel lets go of a lock however its holders end.
 * A folder whose lock nobody holds is that of a demo that was killed, and the next demo removes it. One that is to be looked
 * at has no such file, and stays. What goes wrong has been said on standard error. */
#ifndef STAMPEDE_COMMAND_DEMO_FOLDER_H
#define STAMPEDE_COMMAND_DEMO_FOLDER_H

#include <stdbool.h>

#define DEMO_PATH_BYTES 480 /* room is left for names in it */

/* In TMPDIR. Processes that are started from now on inherit the lock, which is let go of when all of them have ended. */
bool demo_folder_make(char path[DEMO_PATH_BYTES]);
void demo_folder_remove(const char *path);
void demo_folder_keep(const char *path); /* for whoever wants to look */

#endif
