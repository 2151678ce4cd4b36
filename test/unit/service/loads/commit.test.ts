import { expect, test } from "vitest";
import { UnavailableError } from "#errors.ts";
import { failureOf } from "#service/loads/commit.ts";

const said =
  "Out of Memory Error: could not allocate block of size 256.0 KiB (1023.9 MiB/1.0 GiB used)\n\nPossible solutions:\n* Reducing the number of threads (SET threads=X)";

test.each([new Error(said), new UnavailableError(said)])(
  "a load that runs out of memory says what to do: %s",
  (error) => {
    const outcome = failureOf(error);
    expect(outcome).toMatchObject({ code: "LOAD_FAILED", rowsWritten: 0 });
    expect(outcome?.message).toMatch(/^There is not enough memory for the load: .* service\.memory/);
    expect(outcome?.message).not.toContain("Possible solutions");
  },
);

test("a full disk is reported as one; anything else goes to the log", () => {
  const full = `${said}; "max_temp_directory_size"`;
  expect(failureOf(new Error(full))?.message).toMatch(/not enough free disk space/);
  expect(failureOf(new Error("something else"))).toBeUndefined();
});
