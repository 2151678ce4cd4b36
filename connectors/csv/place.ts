/** Where a read stands: for messages, and for the origin of what is read. Advances as rows are read. */
export interface Place {
  /** As it stands in the configuration. */
  readonly file: string;
  /** The line, from 1, on which the current row starts, as an editor shows it. */
  line: number;
}

/** `people.csv:17` */
export function at(place: Place): string {
  return `${place.file}:${place.line}`;
}
