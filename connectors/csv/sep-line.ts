import { InputError } from "#errors.ts";
import type { Dialect } from "./options.ts";
import { at, type Place } from "./place.ts";

/** `sep=;`, as Excel understands and some exports write it, and its line end. */
const sepLine = /^sep=([^\r\n])(?:\r\n|\r|\n)/iu;
const longest = "sep=🦉\r\n".length;

/**
 * A text without the line that says what its delimiter is, if it starts with one, and the dialect with that delimiter.
 * Advances `place` past the line.
 * @throws {InputError} when there is such a line and `sepLine` does not allow it
 */
export async function withoutSepLine(
  text: AsyncGenerator<string>,
  dialect: Dialect,
  place: Place,
): Promise<{ readonly dialect: Dialect; readonly text: AsyncIterable<string> }> {
  let start = "";
  while (start.length < longest) {
    const { done, value } = await text.next();
    if (done === true) break;
    start += value;
  }
  const [line, delimiter] = sepLine.exec(start) ?? [];
  if (line === undefined || delimiter === undefined) return { dialect, text: following(start, text) };
  if (!dialect.sepLine || delimiter === dialect.quote) {
    await text.return(undefined);
    const problem = dialect.sepLine
      ? "the delimiter it names is also the quote"
      : "is a line that says what the delimiter is (sep=…); set sepLine to true";
    throw new InputError(`${at(place)}: ${problem}`);
  }
  place.line++;
  return { dialect: { ...dialect, delimiter }, text: following(start.slice(line.length), text) };
}

async function* following(start: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  if (start !== "") yield start;
  yield* rest;
}
