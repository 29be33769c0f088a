package service

import (
	"net/http"
	"time"

	"github.com/stepwell/stepwell/spec"
)

// builtin is the table of budpipeline §6.1 and §3.3, and of the catalogue of the system behind it, under
// whose names its documents call the same services. The paths of the catalogue are ours: in its origin
// they lie in code; configuration replaces them.
func builtin() []Endpoint {
	return append(specified(), catalogue()...)
}

func specified() []Endpoint {
	return []Endpoint{
		{Action: "internal.model.onboard", Summary: "Onboards a model.", App: "budmodel", Path: "/api/v1/models/onboard",
			Params:  fields(need("model_uri", spec.Ref, "Where the model is."), may("source_type", spec.String, "huggingface, url, local …"), may("model_name", spec.String, ""), may("credential_id", spec.Ref, ""), may("project_id", spec.Ref, ""), may("description", spec.String, ""), may("author", spec.String, "")),
			Outputs: fields(gives("model_id", spec.Ref))},
		{Action: "internal.model.deploy", Aliases: []string{"internal.deployment.deploy"}, Summary: "Deploys a model.", App: "budcluster", Path: "/api/v1/deployments",
			Params:  fields(need("model_id", spec.Ref, "Model to deploy."), may("cluster_id", spec.Ref, "Where to."), may("replicas", spec.Integer, ""), may("config", spec.Any, "What a simulation has recommended."), may("project_id", spec.Ref, ""), may("endpoint_name", spec.String, ""), may("credential_id", spec.Ref, "")),
			Outputs: fields(gives("endpoint_id", spec.Ref), gives("endpoint_url", spec.String))},
		{Action: "internal.deployment.scale", Summary: "Scales a deployment.", App: "budcluster", Path: "/api/v1/deployments/{endpoint_id}/scale",
			Params: fields(need("endpoint_id", spec.Ref, "Deployment."), may("replicas", spec.Integer, ""), may("target_replicas", spec.Integer, ""))},
		{Action: "internal.deployment.delete", Summary: "Deletes a deployment.", App: "budcluster", Path: "/api/v1/deployments/{endpoint_id}", Method: http.MethodDelete,
			Params: fields(need("endpoint_id", spec.Ref, "Deployment."), may("force", spec.Boolean, ""))},
		{Action: "internal.budsim.simulate", Summary: "Simulates a deployment.", App: "budsim", Path: "/api/v1/simulations", Async: true,
			Params:  fields(need("model_id", spec.Ref, "Model to simulate."), may("cluster_id", spec.Ref, ""), may("input_tokens", spec.Integer, ""), may("output_tokens", spec.Integer, ""), may("concurrency", spec.Integer, ""), may("targets", spec.Object, "")),
			Outputs: fields(gives("recommended_config", spec.Object))},
		{Action: "internal.notify.send", Summary: "Sends a notification.", App: "budnotify", Path: "/api/v1/notifications",
			Params: fields(may("template", spec.String, ""), may("data", spec.Object, "What the template shows."), may("channel", spec.String, ""), may("title", spec.String, ""), may("message", spec.String, ""), may("severity", spec.String, ""), may("recipients", spec.Array, ""), may("metadata", spec.Object, ""))},
		{Action: "internal.metrics.query", Summary: "Queries metrics.", App: "budmetrics", Path: "/api/v1/metrics/query",
			Params: fields(need("query", spec.Any, "What to ask for."), may("start", spec.Time, ""), may("end", spec.Time, ""), may("step", spec.Duration, ""), may("filters", spec.Object, ""))},
	}
}

// catalogue are the actions of budpipeline as built, with their parameters and time limits.
func catalogue() []Endpoint {
	deployment := "/api/v1/deployments/{endpoint_id}"
	return []Endpoint{
		{Action: "notification", Summary: "Sends a notification.", App: "budnotify", Path: "/api/v1/notifications", Timeout: 30 * time.Second,
			Params:  fields(enum(may("channel", spec.String, ""), "email", "slack", "teams", "webhook"), may("title", spec.String, ""), need("message", spec.String, "What to say."), may("severity", spec.String, ""), may("recipients", spec.Array, ""), may("metadata", spec.Object, "")),
			Outputs: fields(gives("sent", spec.Boolean), gives("notification_id", spec.Ref))},
		{Action: "cluster_health", Summary: "Checks a cluster.", App: "budcluster", Path: "/api/v1/clusters/{cluster_id}/health", Timeout: time.Minute,
			Params:  fields(need("cluster_id", spec.Ref, "Cluster."), may("checks", spec.Array, "nodes, api, storage, gpu."), may("timeout_seconds", spec.Number, "")),
			Outputs: fields(gives("healthy", spec.Boolean), gives("status", spec.String), gives("issues", spec.Array), gives("details", spec.Object))},
		{Action: "deployment_create", Summary: "Creates a deployment.", App: "budcluster", Path: "/api/v1/deployments", Async: true, MaxWait: 10 * time.Minute,
			Params: fields(need("model_id", spec.Ref, "Model."), need("project_id", spec.Ref, "Project."), need("endpoint_name", spec.String, "Name of the endpoint."), may("cluster_id", spec.Ref, ""), may("credential_id", spec.Ref, ""), may("hardware_mode", spec.String, ""),
				may("concurrent_requests", spec.Integer, ""), may("avg_sequence_length", spec.Integer, ""), may("avg_context_length", spec.Integer, ""), may("ttft", spec.Any, ""), may("tokens", spec.Any, ""), may("e2e", spec.Any, ""), may("autoscaler", spec.Object, "")),
			Outputs: fields(gives("success", spec.Boolean), gives("endpoint_id", spec.Ref), gives("endpoint_url", spec.String))},
		{Action: "deployment_delete", Summary: "Deletes a deployment.", App: "budcluster", Path: deployment, Method: http.MethodDelete, Async: true, MaxWait: 5 * time.Minute,
			Params:  fields(need("endpoint_id", spec.Ref, "Deployment."), may("force", spec.Boolean, ""), may("max_wait_seconds", spec.Number, "")),
			Outputs: fields(gives("success", spec.Boolean), gives("endpoint_id", spec.Ref), gives("namespace", spec.String), gives("cluster_id", spec.Ref), gives("status", spec.String), gives("message", spec.String))},
		{Action: "deployment_scale", Summary: "Scales a deployment.", App: "budcluster", Path: deployment + "/scale", Timeout: 2 * time.Minute,
			Params:  fields(need("endpoint_id", spec.Ref, "Deployment."), between(need("target_replicas", spec.Integer, "How many."), 0, 100)),
			Outputs: fields(gives("success", spec.Boolean), gives("previous_min_replicas", spec.Integer), gives("previous_max_replicas", spec.Integer))},
		{Action: "deployment_ratelimit", Summary: "Limits the requests to a deployment.", App: "budcluster", Path: deployment + "/ratelimit", Timeout: time.Minute,
			Params: fields(need("endpoint_id", spec.Ref, "Deployment."), enum(may("algorithm", spec.String, ""), "token_bucket", "fixed_window", "sliding_window"), may("requests_per_second", spec.Number, ""), may("requests_per_minute", spec.Number, ""),
				may("requests_per_hour", spec.Number, ""), with(may("burst_size", spec.Integer, ""), int64(100)), may("enabled", spec.Boolean, ""))},
		{Action: "model_add", Summary: "Adds a model.", App: "budmodel", Path: "/api/v1/models", Async: true, MaxWait: 24 * time.Hour,
			Params: fields(enum(with(may("model_source", spec.String, ""), "hugging_face"), "hugging_face", "url", "local"), need("model_uri", spec.Ref, "Its location."), may("credential_id", spec.Ref, ""), may("model_name", spec.String, ""), may("description", spec.String, ""),
				may("author", spec.String, ""), may("max_wait_seconds", spec.Number, "")),
			Outputs: fields(gives("success", spec.Boolean), gives("model_id", spec.Ref))},
		{Action: "cloud_model_add", Summary: "Adds a model of a cloud provider.", App: "budmodel", Path: "/api/v1/models/cloud", Timeout: 2 * time.Minute,
			Params: fields(need("provider_id", spec.Ref, "Provider."), may("cloud_model_id", spec.Ref, ""), need("model_name", spec.String, "Name."), may("model_uri", spec.Ref, ""))},
		{Action: "model_delete", Summary: "Deletes a model.", App: "budmodel", Path: "/api/v1/models/{model_id}", Method: http.MethodDelete, Timeout: time.Minute,
			Params: fields(need("model_id", spec.Ref, "Model."), may("force", spec.Boolean, ""))},
		{Action: "model_benchmark", Summary: "Measures a model on a cluster.", App: "budcluster", Path: "/api/v1/benchmarks", Async: true, MaxWait: 20 * time.Minute,
			Params: fields(need("model_id", spec.Ref, "Model."), need("cluster_id", spec.Ref, "Cluster."), may("benchmark_name", spec.String, ""), may("concurrent_requests", spec.Integer, ""), may("max_input_tokens", spec.Integer, ""), may("max_output_tokens", spec.Integer, ""),
				may("num_prompts", spec.Integer, ""), may("tp_size", spec.Integer, ""), may("pp_size", spec.Integer, ""), may("replicas", spec.Integer, ""), may("max_wait_seconds", spec.Number, "")),
			Outputs: fields(gives("benchmark_id", spec.Ref), gives("results", spec.Object))},
		{Action: "simulation_run", Summary: "Runs a simulation.", App: "budsim", Path: "/api/v1/simulations", Async: true, MaxWait: 30 * time.Minute,
			Params:  fields(need("model_id", spec.Ref, "Model."), may("input_tokens", spec.Integer, ""), may("output_tokens", spec.Integer, ""), may("concurrency", spec.Integer, ""), may("targets", spec.Object, "")),
			Outputs: fields(gives("recommendations", spec.Array), gives("top_recommendation", spec.Object), gives("metrics", spec.Object))},
	}
}

func fields(list ...spec.Field) []spec.Field { return list }

func need(name string, t spec.Type, doc string) spec.Field {
	return spec.Field{Name: name, Type: t, Doc: doc, Required: true}
}

func may(name string, t spec.Type, doc string) spec.Field {
	return spec.Field{Name: name, Type: t, Doc: doc}
}

func gives(name string, t spec.Type) spec.Field { return spec.Field{Name: name, Type: t} }

func enum(f spec.Field, values ...string) spec.Field {
	f.Enum = values
	return f
}

func with(f spec.Field, value any) spec.Field {
	f.Default = value
	return f
}

func between(f spec.Field, low, high float64) spec.Field {
	f.Min, f.Max = &low, &high
	return f
}
