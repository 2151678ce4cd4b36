/* What is said when a command is interrupted: why nothing came of it, and that it was heard. */

/** What Ctrl-C means to it. */
export const exportStopping = {
  reason: "interrupted",
  notice: "cancelling the export (press Ctrl-C again not to wait for it)",
};

/** What is said when a load is interrupted. */
export const loadStopping = {
  reason: "interrupted: nothing was loaded",
  notice: "cancelling the load (press Ctrl-C again not to wait for it)",
};

/** What is said when SQL is interrupted. */
export const sqlStopping = {
  reason: "interrupted: the statement that was running was undone",
  notice: "stopping (press Ctrl-C again not to wait)",
};

/** What is said when a command that only looks is interrupted. */
export const lookStopping = { reason: "interrupted", notice: "stopping (press Ctrl-C again not to wait)" };
