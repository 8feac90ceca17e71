-- +goose Up

-- Questions to an agent with what their replies must be like, as JSON.
CREATE TABLE test_sets (
    id         TEXT   PRIMARY KEY,
    account_id TEXT   NOT NULL REFERENCES accounts (id),
    agent_id   TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    questions  TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX test_sets_by_agent ON test_sets (account_id, agent_id, created_at, id);

-- Runs of test sets. version is the version of the agent that was in use; the candidate is candidate_version, or version with the
-- settings draft, or nothing (0 and ''). reason is why a run stopped or stops. questions are those of the set at the beginning.
CREATE TABLE test_runs (
    id                TEXT   PRIMARY KEY,
    account_id        TEXT   NOT NULL REFERENCES accounts (id),
    agent_id          TEXT   NOT NULL,
    set_id            TEXT   NOT NULL,
    key_id            TEXT   NOT NULL,
    name              TEXT   NOT NULL,
    status            TEXT   NOT NULL,
    reason            TEXT   NOT NULL,
    version           BIGINT NOT NULL,
    candidate_version BIGINT NOT NULL,
    draft             TEXT   NOT NULL,
    questions         TEXT   NOT NULL,
    max_credits       BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    finished_at       BIGINT NOT NULL
);
CREATE INDEX test_runs_of_set ON test_runs (account_id, set_id, created_at, id);
CREATE INDEX test_runs_of_agent ON test_runs (account_id, agent_id);
CREATE INDEX test_runs_in_progress ON test_runs (id) WHERE status = 'running';

-- One row for each question and side of a run, from its beginning. side is 0 for the version in use and 1 for the candidate;
-- session_id is '' before its session begins and after it was deleted.
CREATE TABLE test_results (
    account_id   TEXT   NOT NULL,
    agent_id     TEXT   NOT NULL,
    run_id       TEXT   NOT NULL,
    number       BIGINT NOT NULL,
    side         BIGINT NOT NULL,
    status       TEXT   NOT NULL,
    verdict      TEXT   NOT NULL,
    reasons      TEXT   NOT NULL,
    reply        TEXT   NOT NULL,
    session_id   TEXT   NOT NULL,
    credits      BIGINT NOT NULL,
    cap          BIGINT NOT NULL,
    milliseconds BIGINT NOT NULL,
    PRIMARY KEY (run_id, number, side)
);
CREATE INDEX test_results_of_session ON test_results (session_id) WHERE session_id <> '';
CREATE INDEX test_results_of_agent ON test_results (account_id, agent_id);

-- +goose Down
DROP TABLE test_results;
DROP TABLE test_runs;
DROP TABLE test_sets;
