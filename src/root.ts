/**
 * The program's folder: a checkout, or the installed package, whose code is in the files of `dist`. Files that are read at
 * run time (`config/`, `src/console/assets/`) are named from here.
 */
export const root = new URL("../", import.meta.url);
