package main

import (
	"cmp"
	"encoding/json"
	"os"
	"runtime"
	"time"
)

// The in-toto statement of SLSA provenance, version 1: what was built, of which commit, where.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []resource        `json:"resolvedDependencies"`
}

type resource struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

type runDetails struct {
	Builder  map[string]string `json:"builder"`
	Metadata map[string]string `json:"metadata"`
}

// provenance is the statement about the files. What the workflow's variables say of the run counts only because the statement
// is signed with the workflow's identity.
func (r *release) provenance(subjects []subject) ([]byte, error) {
	ref := "refs/tags/" + r.Tag
	builder, invocation := repository+"/blob/main/deploy/release/build", "local"
	if run := os.Getenv("GITHUB_RUN_ID"); run != "" {
		builder = "https://github.com/" + os.Getenv("GITHUB_WORKFLOW_REF")
		invocation = repository + "/actions/runs/" + run + "/attempts/" + cmp.Or(os.Getenv("GITHUB_RUN_ATTEMPT"), "1")
	}
	return json.MarshalIndent(statement{
		Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate{
			BuildDefinition: buildDefinition{
				BuildType:            repository + "/blob/main/docs/releases.md",
				ExternalParameters:   map[string]string{"repository": repository, "ref": ref},
				InternalParameters:   map[string]string{"go": runtime.Version()},
				ResolvedDependencies: []resource{{URI: "git+" + repository + "@" + ref, Digest: map[string]string{"gitCommit": r.Commit}}},
			},
			RunDetails: runDetails{
				Builder:  map[string]string{"id": builder},
				Metadata: map[string]string{"invocationId": invocation, "finishedOn": time.Now().UTC().Format(time.RFC3339)},
			},
		},
	}, "", "  ")
}
