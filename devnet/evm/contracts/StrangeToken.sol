// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.37;

// A token with manners that a payout service meets, and must handle or refuse. Whoever deploys it holds the supply; anybody may change its manner.
contract StrangeToken {
    enum Manner {
        Usual, // returns true, or reverts
        Silent, // returns nothing
        FalseOnFailure, // returns false instead of a revert
        FalseOnSuccess, // moves, and returns false
        Fee, // keeps a hundredth
        Shares, // knows sharesOf, as tokens whose balances change by themselves do
        Twice // writes each transfer down twice
    }

    bytes32 public name = "Strange Token";
    bytes32 public immutable symbol;
    uint256 public immutable decimals;
    Manner public manner;
    mapping(address account => uint256) public balanceOf;
    mapping(address owner => mapping(address spender => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    constructor(bytes32 symbol_, uint256 decimals_, Manner manner_) {
        symbol = symbol_;
        decimals = decimals_;
        manner = manner_;
        balanceOf[msg.sender] = 1e30;
        emit Transfer(address(0), msg.sender, 1e30);
    }

    function become(Manner manner_) external {
        manner = manner_;
    }

    function sharesOf(address account) external view returns (uint256) {
        require(manner == Manner.Shares);
        return balanceOf[account];
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external {
        _answer(_move(msg.sender, to, value));
    }

    function transferFrom(address from, address to, uint256 value) external {
        require(allowance[from][msg.sender] >= value);
        allowance[from][msg.sender] -= value;
        _answer(_move(from, to, value));
    }

    function _move(address from, address to, uint256 value) private returns (bool) {
        if (balanceOf[from] < value) {
            require(manner == Manner.FalseOnFailure);
            return false;
        }
        uint256 arrives = manner == Manner.Fee ? value - value / 100 : value;
        balanceOf[from] -= value;
        balanceOf[to] += arrives;
        emit Transfer(from, to, arrives);
        if (manner == Manner.Twice) emit Transfer(from, to, arrives);
        return true;
    }

    function _answer(bool moved) private view {
        if (manner == Manner.Silent) return;
        bool answer = moved && manner != Manner.FalseOnSuccess;
        assembly {
            mstore(0, answer)
            return(0, 32)
        }
    }
}
