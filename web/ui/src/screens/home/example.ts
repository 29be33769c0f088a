/** example is a pipeline that runs everywhere within some seconds: branches side by side, a for_each, a retry, a step at the end. */
export const example = `name: example
parameters:
  - {name: who, type: string, default: world, description: Whom to greet.}
  - {name: cities, type: array, default: [Berlin, Lisbon, Nairobi], description: What the for_each goes over.}
steps:
  - id: greet
    action: util.log
    params: {message: "Hello, {{ params.who }}!"}
  - id: visit
    action: util.wait
    depends_on: [greet]
    for_each: {items: "{{ params.cities }}", as: city, max_concurrency: 2}
    params: {seconds: 2}
  - id: rest
    action: util.wait
    depends_on: [greet]
    params: {seconds: 3}
  - id: report
    action: util.set_output
    depends_on: [visit, rest]
    params: {visited: "{{ params.cities | length }}"}
outputs:
  visited: "{{ steps.report.outputs.visited }}"
finally:
  - id: goodbye
    action: util.log
    params: {message: "The execution {{ execution.status }}."}
`
