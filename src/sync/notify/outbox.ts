import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "#errors.ts";
import { readJson, writeDurably } from "#files/durable.ts";
import { makeFolder } from "#files/disk.ts";
import type { Letter } from "./letter.ts";

/** The letters of one channel that have not gone out. They are in memory and on disk: a full disk keeps none back. */
export interface Outbox {
  /** The oldest first. */
  letters(): readonly Letter[];
  /** Adds a letter, or replaces the one with its id. The oldest ones go where there are too many; they are returned. */
  put(letter: Letter): Promise<readonly Letter[]>;
  remove(letter: Letter): Promise<void>;
}

/** More letters than this are of no use to anybody. */
const mostLetters = 500;

/**
 * Opens the outbox in a folder. What cannot be read there is thrown away.
 * @param warn is told, in words, what the disk refuses
 */
export async function openOutbox(folder: string, warn: (message: string) => void): Promise<Outbox> {
  const letters = new Map<string, Letter>();
  const attempt = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    await work().catch((error: unknown) => {
      warn(`${what} (${messageOf(error)})`);
    });
  };
  const fileOf = ({ id }: Letter): string => join(folder, `${id}.json`);
  await attempt(`${folder} cannot be made: notices that wait do not survive a restart`, () =>
    makeFolder(folder, "the outbox"),
  );
  for (const name of await readdir(folder).catch(() => [])) {
    const letter = await readJson(join(folder, name));
    if (isLetter(letter) && name === `${letter.id}.json`) letters.set(letter.id, letter);
    else await rm(join(folder, name), { force: true }).catch(() => undefined);
  }
  const inOrder = (): Letter[] => [...letters.values()].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  const remove = async (letter: Letter): Promise<void> => {
    letters.delete(letter.id);
    await attempt("a notice that is done with cannot be removed", () => rm(fileOf(letter), { force: true }));
  };
  return {
    letters: inOrder,
    remove,
    async put(letter) {
      letters.set(letter.id, letter);
      await attempt("a notice cannot be kept on disk: it does not survive a restart", () =>
        writeDurably(fileOf(letter), `${JSON.stringify(letter)}\n`),
      );
      const dropped = inOrder().slice(0, Math.max(0, letters.size - mostLetters));
      for (const each of dropped) await remove(each);
      return dropped;
    },
  };
}

function isLetter(value: unknown): value is Letter {
  if (typeof value !== "object" || value === null) return false;
  const { id, createdAt, dueAt, notices } = value as Partial<Letter>;
  return [id, createdAt, dueAt].every((text) => typeof text === "string") && Array.isArray(notices);
}
