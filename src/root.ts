/**
 * The program's folder: a checkout, or the installed package, whose compiled code is one folder deeper, in `dist`. Files
 * that are read at run time (`config/`, `src/console/assets/`) are named from here.
 */
export const root = new URL(import.meta.url.endsWith(".ts") ? "../" : "../../", import.meta.url);
