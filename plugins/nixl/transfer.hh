// SPDX-License-Identifier: Apache-2.0
//
// A handle of NIXL: a batch of pieces and the notification behind it. The batch is prepared for the
// link of the first post, and posted any number of times.
#pragma once

#include "engine.hh"

class Transfer final : public abi::Request
{
      public:
	Transfer(const Engine &e, abi::Op op);
	~Transfer() override;

	// Check the pieces. An error fails the creation of the handle.
	abi::Status prepare(const std::vector<abi::MetaDesc> &local,
			    const std::vector<abi::MetaDesc> &remote);
	abi::Status post(const std::string *notif);
	abi::Status check();
	bool in_flight() const
	{
		return state == State::BYTES || state == State::NOTICE;
	}
	// End what is in flight by the end of its link.
	void close();
	// Forget what was prepared over a region that goes; it is prepared again when it is posted.
	void leave(const Region &region);

      private:
	enum class State { IDLE, BYTES, NOTICE };

	abi::Status add(const abi::MetaDesc &local, const abi::MetaDesc &remote);
	abi::Status post_local(const std::string *notif);
	abi::Status post_remote();
	abi::Status submit();
	abi::Status finish(abi::Status status);
	abi::Status notify();
	abi::Status wait_on();
	void unprepare();

	const Engine &engine;
	const abi::Op op_kind;
	std::shared_ptr<Peer> peer; // NULL: this agent itself
	bool uses_device = false;   // memory of a GPU
	std::vector<slime_xfer> pieces;
	std::vector<std::shared_ptr<Remote>> remotes; // that pieces refer to
	std::vector<std::shared_ptr<Region>> regions; // the same
	slime_op *op = nullptr;
	std::mutex mutex;		     // of the next two
	slime_batch *batch = nullptr;	     // the pieces, prepared
	std::shared_ptr<Link> prepared_link; // for this link
	State state = State::IDLE;
	std::shared_ptr<Link> link; // while in flight
	uint64_t deadline_ms = 0;   // of that; 0: none
	bool given_up = false;	    // its link is being closed
	bool has_notif = false;
	std::string notif;
	std::unique_ptr<Notice> notice;
};
