import { PassThrough } from "node:stream";
import { afterEach, expect, test, vi } from "vitest";
import { givenPassword } from "#cli/password-prompt.ts";
import { openOutput } from "#daemon/output.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

function read(signal?: AbortSignal): { stdin: PassThrough; password: Promise<string> } {
  const stdin = new PassThrough();
  vi.spyOn(process, "stdin", "get").mockReturnValue(stdin as unknown as typeof process.stdin);
  const options = signal === undefined ? {} : { signal };
  return { stdin, password: givenPassword(openOutput({ json: false }), "-", "Password:", options) };
}

test("a password is read from a pipe, whose program may take its time", async () => {
  const { stdin, password } = read();
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  stdin.end("correct horse battery\r\n");
  expect(await password).toBe("correct horse battery");
});

test("an interrupted read of a password ends", async () => {
  const stop = new AbortController();
  const { password } = read(stop.signal);
  stop.abort(new Error("stopped"));
  await expect(password).rejects.toThrow("stopped");
});
