// The commands that call a webhook. Pure. They hold no secret: it is read from $SECRET.
import type { Schemas } from "../../api/client"

/** curlOf is a command line that calls a webhook, or "" where only its sender can (its signature is the sender's). */
export function curlOf(auth: Schemas["Webhook"]["auth"], url: string): string {
  const body = `'{"payload": {"ref": "main"}}'`
  const quoted = `'${url.replaceAll("'", "'\\''")}'`
  const type = `-H 'Content-Type: application/json'`
  switch (auth) {
    case "secret": return `curl ${quoted} ${type} \\\n  -H "X-Webhook-Secret: $SECRET" -d ${body}`
    case "none": return `curl ${quoted} ${type} -d ${body}`
    case "hmac": return `body=${body}; at=$(date +%s)\nsig=$(printf '%s.%s' "$at" "$body" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)\ncurl ${quoted} ${type} -d "$body" \\\n  -H "X-Webhook-Timestamp: $at" -H "X-Webhook-Signature: sha256=$sig"`
    case "github": return `body=${body}\nsig=$(printf '%s' "$body" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)\ncurl ${quoted} ${type} -d "$body" \\\n  -H "X-GitHub-Delivery: $(uuidgen)" -H "X-Hub-Signature-256: sha256=$sig"`
    default: return ""
  }
}
