import { InputError, messageOf } from "#errors.ts";

/** As much as is read, looked at and sent at a time, in bytes. */
export const blockSize = 1024 * 1024;

/** The error of a source that cannot be read. */
export function unreadable(name: string, error: unknown): InputError {
  return new InputError(`${name} cannot be read: ${messageOf(error)}`, { cause: error });
}
