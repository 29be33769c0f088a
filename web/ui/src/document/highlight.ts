// Which parts of a line of YAML or JSON are what, for showing it. Pure; it colours, it does not understand.

export interface Part { text: string; kind: "" | "key" | "comment" | "text" | "number" | "template" }

const pattern = /(?<comment>(?:^|(?<=\s))#.*$)|(?<template>\{\{.*?\}\})|(?<key>[\w.-]+(?=:(?:\s|$))|"(?:[^"\\]|\\.)*"(?=\s*:))|(?<text>"(?:[^"\\{]|\\.)*"|'[^'{]*')|(?<number>(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-])|(?<![\w.-])(?:true|false|null)(?![\w.-]))/g

/** partsOf splits a line; the parts together are the line. */
export function partsOf(line: string): Part[] {
  if (line.length > 2_000) return [{ text: line, kind: "" }]
  const parts: Part[] = []
  let at = 0
  for (const m of line.matchAll(pattern)) {
    if (m.index > at) parts.push({ text: line.slice(at, m.index), kind: "" })
    parts.push({ text: m[0], kind: Object.entries(m.groups!).find(([, v]) => v !== undefined)![0] as Part["kind"] })
    at = m.index + m[0].length
  }
  if (at < line.length || parts.length === 0) parts.push({ text: line.slice(at), kind: "" })
  return parts
}

/** diffKind says what a line of a unified diff is. */
export const diffKind = (line: string): "added" | "removed" | "place" | "" => (/^(\+\+\+|---|@@)/.test(line) ? "place" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "")
