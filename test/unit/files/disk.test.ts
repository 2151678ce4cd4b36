import { describe, expect, test } from "vitest";
import { errorDocument, InputError, reasonOf, UnavailableError } from "#errors.ts";
import { exists, forbidden, naming, obstacleOf, removeFile, unwritable } from "#files/disk.ts";

const withCode = (code: string): Error => Object.assign(new Error(`${code}: refused, write`), { code });

test("a path that cannot be looked at is not taken for one where nothing is", async () => {
  expect(await exists(import.meta.filename)).toBe(true);
  expect(await exists(`${import.meta.filename}.gone`)).toBe(false);
  expect(await exists(`${import.meta.filename}/below`)).toBe(false);
  // As with a folder of another account, but for root, too.
  await expect(exists("a\0b")).rejects.toThrow("null bytes");
});

test("a file that is not there is removed, and nothing else that cannot be removed", async () => {
  await removeFile(`${import.meta.filename}.gone`);
  await expect(removeFile(import.meta.dirname)).rejects.toThrow(/EISDIR|EPERM/);
});

describe("why a disk cannot be written to", () => {
  test.each([
    ["full", withCode("ENOSPC")],
    ["full", withCode("EDQUOT")],
    ["full", withCode("EFBIG")],
    ["full", new Error('IO Error: Could not write file "x.wal": No space left on device')],
    ["full", new Error('Out of Memory Error: … the "max_temp_directory_size" …')],
    ["full", new Error("database or disk is full")],
    ["full", new InputError("it cannot be kept", { cause: withCode("ENOSPC") })],
    ["read-only", withCode("EROFS")],
    ["read-only", new Error('IO Error: Cannot open file "x": Read-only file system')],
    ["handles", withCode("EMFILE")],
    ["handles", withCode("ENFILE")],
    ["handles", new Error('IO Error: Cannot open file "x.csv": Too many open files')],
    ["full", new Error('Database "d" has been invalidated …: Transaction COMMIT succeeded …: No space left on device')],
    [undefined, withCode("EACCES")],
    [undefined, new Error("Out of Memory Error: could not allocate block")],
    [undefined, "full"],
  ] as const)("%s: %s", (obstacle, error) => {
    expect(obstacleOf(error)).toBe(obstacle);
  });

  test("is said with what cannot be written and what to do, and may go better later", () => {
    expect(unwritable("the ledger /d/l", withCode("ENOSPC"))).toEqual(
      new UnavailableError("the ledger /d/l cannot be written: the disk is full; make room, then try again"),
    );
    expect(unwritable("the ledger /d/l", withCode("EACCES"))).toBeInstanceOf(InputError);
  });

  test("what this account may not use is not called damaged", () => {
    const duckdb = new Error('IO Error: Cannot open file "/d/l": Permission denied');
    for (const error of [withCode("EACCES"), withCode("EPERM"), duckdb])
      expect(forbidden("the ledger /d/l", error)?.message).toBe(
        "the ledger /d/l cannot be used: permission denied (EACCES); run as the owner of the data folder",
      );
    expect(forbidden("the ledger /d/l", new Error("The file exists, but it is not a valid DuckDB database"))).toBe(
      undefined,
    );
  });

  test("an error of the system that no code expected names its file, and says in words why", () => {
    const raw = Object.assign(withCode("EACCES"), { syscall: "scandir", path: "/d/loads" });
    expect(errorDocument(raw).message).toBe("/d/loads cannot be used: permission denied (EACCES); run as its owner");
    expect(reasonOf(raw)).toBe("permission denied (EACCES)");
    expect(reasonOf(withCode("ENOENT"))).toBe("ENOENT: refused, write");
  });

  test("what says so already, or is about something else, stays as it is", () => {
    const said = new InputError("the folder /d cannot be made", { cause: withCode("ENOSPC") });
    const other = withCode("EACCES");
    expect([naming("x", said), naming("x", other)]).toEqual([said, other]);
    expect(naming("the folder /d", withCode("ENOSPC"))).toMatchObject({ advice: "retry" });
  });
});
