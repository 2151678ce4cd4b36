import { distance } from "fastest-levenshtein";

/** The candidate that was probably meant, or undefined when none is near. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(word.length / 2.5));
  let best: { candidate: string; edits: number } | undefined;
  for (const candidate of candidates) {
    const edits = editsBetween(word.toLowerCase(), candidate.toLowerCase());
    if (edits <= limit && (best === undefined || edits < best.edits)) best = { candidate, edits };
  }
  return best?.candidate;
}

/** Two letters that changed places are one slip, not two. */
function editsBetween(one: string, other: string): number {
  const edits = distance(one, other);
  return edits === 2 && sorted(one) === sorted(other) ? 1 : edits;
}

function sorted(word: string): string {
  return Array.from(word).sort().join("");
}

/** `did you mean "name"?`, or what there is to choose from. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const meant = nearest(word, candidates);
  if (meant !== undefined) return `did you mean ${JSON.stringify(meant)}?`;
  return candidates.length === 0 ? "there are none" : `expected one of: ${candidates.join(", ")}`;
}
