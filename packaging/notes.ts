/**
 * The notes of a release: its section of the changelog.
 * @throws {Error} when there is none, or it is empty
 */
export function notesOf(changelog: string, version: string): string {
  const sections = changelog.split(/^## /m).slice(1);
  const section =
    sections.find((each) => each.startsWith(version)) ?? sections.find((each) => each.startsWith("Unreleased"));
  const text = section?.slice(section.indexOf("\n")).trim();
  if (text === undefined || text === "") throw new Error(`CHANGELOG.md says nothing about ${version}`);
  return `# Rollcall ${version}\n\n${text}\n`;
}
