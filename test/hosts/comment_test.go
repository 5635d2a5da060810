// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/test/needs"
)

// comment is a comment as GitHub's API has it.
type comment struct {
	ID   int `json:"id"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
	Body string `json:"body"`
}

// comments stands in for GitHub's comments on pull request 7 of a repository.
// Source: docs.github.com, "REST API endpoints for issue comments".
type comments struct {
	mu      sync.Mutex // held by the test unless the action runs
	all     []comment
	asked   []string // the methods and paths of requests
	refuses int      // the status of the answer to every write; 0 lets it through
}

const (
	workflows = "github-actions[bot]"
	token     = "ghs_token-of-the-job"
)

func (c *comments) add(login, body string) {
	one := comment{ID: 1000 + len(c.all), Body: body}
	one.User.Login = login
	c.all = append(c.all, one)
}

func (c *comments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/repos/o/r/issues/"))
	answer := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(body)
	}
	fail := func(status int, message string) { answer(status, map[string]string{"message": message}) }
	if r.Header.Get("Authorization") != "Bearer "+token {
		fail(http.StatusUnauthorized, "Bad credentials")
		return
	}
	if r.Method != http.MethodGet && c.refuses != 0 {
		fail(c.refuses, "Resource not accessible\n::by 100% integration")
		return
	}
	var sent struct {
		Body string `json:"body"`
	}
	if data, err := io.ReadAll(r.Body); r.Method != http.MethodGet &&
		(err != nil || json.Unmarshal(data, &sent) != nil || len([]rune(sent.Body)) > 65536) {
		fail(http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	id, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/repos/o/r/issues/comments/"))
	at := slices.IndexFunc(c.all, func(one comment) bool { return one.ID == id })
	switch list := r.URL.Path == "/repos/o/r/issues/7/comments"; {
	case list && r.Method == http.MethodPost:
		c.add(workflows, sent.Body)
		answer(http.StatusCreated, c.all[len(c.all)-1])
	case list && r.Method == http.MethodGet:
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		from := min((page-1)*size, len(c.all))
		answer(http.StatusOK, append([]comment{}, c.all[from:min(from+size, len(c.all))]...))
	case at >= 0 && r.Method == http.MethodPatch:
		c.all[at].Body = sent.Body
		answer(http.StatusOK, c.all[at])
	default:
		fail(http.StatusNotFound, "Not Found")
	}
}

// pullRequest is a run of the action's last step on a pull request, with GitHub's stand-in.
type pullRequest struct {
	*comments
	run    *actionRun
	action action
}

func newPullRequest(t *testing.T) *pullRequest {
	t.Helper()
	needs.Programs(t, "bash", "curl", "jq")
	build(t)
	p := &pullRequest{comments: &comments{}, action: readAction(t)}
	p.action.Runs.Steps = p.action.Runs.Steps[len(p.action.Runs.Steps)-1:]
	p.mu.Lock()
	server := httptest.NewServer(p.comments)
	t.Cleanup(server.Close)
	temp := t.TempDir()
	if err := os.Symlink(bin, filepath.Join(temp, "gatehouse")); err != nil {
		t.Fatal(err)
	}
	p.run = &actionRun{path: root(t), work: t.TempDir(), temp: temp, env: []string{"GITHUB_API_URL=" + server.URL,
		"GITHUB_REPOSITORY=o/r", "GITHUB_WORKFLOW=Manifests", "GITHUB_JOB=review", "no_proxy=127.0.0.1"},
		context: map[string]string{"github.token": token, "github.event.pull_request.number": "7",
			"github.event.pull_request.head.sha": "1111"}}
	return p
}

// review writes pod.yaml with pods of these images, and runs the action with a comment and other inputs, by pairs.
func (p *pullRequest) review(t *testing.T, images []string, inputs ...string) (output string, code int) {
	t.Helper()
	var pods strings.Builder
	for i, image := range images {
		fmt.Fprintf(&pods, "---\n"+strings.Replace(pod, "name: p", fmt.Sprintf("name: p%d", i), 1), image)
	}
	write(t, filepath.Join(p.run.work, "pod.yaml"), pods.String())
	all := map[string]string{"files": "pod.yaml", "comment": "true"}
	for i := 0; i < len(inputs); i += 2 {
		all[inputs[i]] = inputs[i+1]
	}
	p.mu.Unlock()
	output, code = p.run.run(t, p.action, all)
	p.mu.Lock()
	if strings.Contains(output, token) {
		t.Errorf("the token is in the output\n%s", output)
	}
	return output, code
}

// TestActionComments checks that a comment has the table, and that later runs replace it: that of the same inputs, and
// written by a workflow.
func TestActionComments(t *testing.T) {
	p := newPullRequest(t)
	for i := range 150 {
		p.add("somebody", fmt.Sprint("comment ", i))
	}
	output, code := p.review(t, []string{"nginx", "''"})
	if code != 1 || !strings.Contains(output, "::error file=pod.yaml,line=7,title=Pod default/p1 is refused::") || len(p.all) != 151 {
		t.Fatalf("it ended with %d and %d comments\n%s", code, len(p.all), output)
	}
	first := p.all[150].Body
	mark, text, _ := strings.Cut(first, "\n")
	const want = `**gatehouse review: 1 admitted, 1 refused, 0 failed**

| object | verdict | by | because | to pass |
| --- | --- | --- | --- | --- |
| Pod default/p1<br>pod.yaml:7 | refused | the API itself | Pod "p1" is invalid: spec.containers\[0\].image: Required value | No plugin refused it: what came of it isn't a valid object. Change the fields named. |

Job review, commit 1111
`
	if diff := cmp.Diff(want, text); diff != "" || !strings.HasPrefix(mark, "<!-- gatehouse review ") {
		t.Errorf("the mark is %s; -want +got:\n%s", mark, diff)
	}
	// A comment by somebody else has the same mark, on an earlier page.
	p.all[3].Body = mark + "\nall is fine"
	p.run.context["github.event.pull_request.head.sha"] = "2222"
	output, code = p.review(t, []string{"nginx", "nginx"})
	if got := p.all[150].Body; code != 0 || len(p.all) != 151 || p.all[3].Body != mark+"\nall is fine" ||
		got != mark+"\n**gatehouse review: 2 admitted, 0 refused, 0 failed**\n\nJob review, commit 2222\n" {
		t.Errorf("then it ended with %d and %d comments, the last is\n%s\n%s", code, len(p.all), got, output)
	}
	// Another review, as another job of a matrix has it, has a comment of its own.
	if output, code = p.review(t, []string{"nginx"}, "flags", "--operation=create"); code != 0 || len(p.all) != 152 {
		t.Errorf("with other flags it ended with %d and %d comments\n%s", code, len(p.all), output)
	}
}

// TestActionCommentIsNeverGreenByMistake checks that a review that could not look says so in its comment.
func TestActionCommentIsNeverGreenByMistake(t *testing.T) {
	p := newPullRequest(t)
	if output, code := p.review(t, []string{"nginx"}, "state", "missing.yaml"); code != 2 || len(p.all) != 1 ||
		!strings.Contains(p.all[0].Body, "**gatehouse review: nothing was judged; the job's log says why**") {
		t.Errorf("it ended with %d and the comments %+v\n%s", code, p.all, output)
	}
	if output, code := p.review(t, []string{"nginx"}, "files", "pod.yaml\nmissing.yaml"); code != 2 || len(p.all) != 2 ||
		!strings.Contains(p.all[1].Body, "1 admitted, 0 refused, 1 failed") || !strings.Contains(p.all[1].Body, "| missing.yaml | failed |") {
		t.Errorf("it ended with %d and the comments %+v\n%s", code, p.all, output)
	}
	if output, code := p.review(t, []string{"nginx"}, "comment", "yes"); code != 2 || len(p.all) != 2 ||
		!strings.Contains(output, "the input comment is yes, and neither true nor false") {
		t.Errorf("it ended with %d\n%s", code, output)
	}
}

// TestActionCommentIsBounded checks that many refusals fit into a comment of GitHub's.
func TestActionCommentIsBounded(t *testing.T) {
	p := newPullRequest(t)
	output, code := p.review(t, slices.Repeat([]string{"''"}, 400))
	if code != 1 || len(p.all) != 1 {
		t.Fatalf("it ended with %d and %d comments\n%s", code, len(p.all), output)
	}
	if body := p.all[0].Body; len(body) >= 60_000 || !strings.Contains(body, "0 admitted, 400 refused, 0 failed") ||
		!strings.Contains(body, " more rows; -o json has all\n") || !strings.HasSuffix(body, "\nJob review, commit 1111\n") {
		t.Errorf("the comment has %d bytes:\n%s", len(body), body)
	}
}

// TestActionWithoutComment checks that a comment that can't be written is a warning, and the verdict decides; and that
// nothing is asked of GitHub without a pull request, or if nobody wants a comment.
func TestActionWithoutComment(t *testing.T) {
	p := newPullRequest(t)
	const cant = "::warning title=gatehouse review::The comment on pull request 7 can't be written, and an older one stays as it is: "
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		p.refuses = status
		want := fmt.Sprintf("%sGitHub answered %d: Resource not accessible ::by 100%%25 integration", cant, status)
		for image, verdict := range map[string]int{"nginx": 0, "''": 1} {
			output, code := p.review(t, []string{image})
			if code != verdict || len(p.all) != 0 || !strings.Contains(output, want) ||
				strings.Contains(output, "pull-requests: write") != (status == http.StatusForbidden) {
				t.Errorf("%d, image %s: it ended with %d and %d comments\n%s", status, image, code, len(p.all), output)
			}
		}
	}
	p.refuses, p.asked = 0, nil
	if output, code := p.review(t, []string{"nginx"}, "comment", "false"); code != 0 || len(p.asked) != 0 {
		t.Errorf("without a comment it ended with %d and asked %q\n%s", code, p.asked, output)
	}
	p.run.context["github.event.pull_request.number"] = ""
	if output, code := p.review(t, []string{"''"}); code != 1 || len(p.asked) != 0 {
		t.Errorf("without a pull request it ended with %d and asked %q\n%s", code, p.asked, output)
	}
	p.run.context["github.event.pull_request.number"] = "7"
	p.run.env = append(p.run.env, "GITHUB_API_URL=http://127.0.0.1:1")
	if output, code := p.review(t, []string{"nginx"}); code != 0 || !strings.Contains(output, cant+"http://127.0.0.1:1 doesn't answer") {
		t.Errorf("without GitHub it ended with %d\n%s", code, output)
	}
}
